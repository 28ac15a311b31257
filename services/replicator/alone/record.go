package alone

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/record"
	"github.com/groupcast/groupcast/services/replicator/send"
)

const (
	// waiting is how many lines may wait for the disk.
	waiting = 64
	// recordPatience is how long the disk may take at the beginning and at the end.
	recordPatience = 5 * time.Second
)

// errRecordStands says that the disk of a record does not answer.
var errRecordStands = errors.New("record: its disk does not answer, or not in time")

// recording writes how a replication goes into a file, beside it: a disk that hangs holds up nobody. A nil recording writes nothing.
type recording struct {
	file    io.WriteCloser
	log     *slog.Logger
	began   time.Time
	lines   chan record.Sample // nil before it has begun
	written chan error         // how the writing ended
	stands  bool               // a line had to be left out: no more are written
}

// recordError says why a record could not be begun, for which nothing was sent.
type recordError struct{ error }

// recordInto opens the file of a record; none if it has no name. What was there is replaced, unless it is what is sent.
func recordInto(name, source string, log *slog.Logger) (*recording, error) {
	if name == "" {
		return nil, nil
	}
	if isWithin(name, source) {
		return nil, fmt.Errorf("%s is, or would be, part of what is sent", name)
	}
	if there, err := os.Stat(name); err == nil && kindOf(there) == "a block device" {
		return nil, fmt.Errorf("%s is a block device: name a file", name)
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &recording{file: file, log: log}, nil
}

// isWithin reports whether a path is the source, or below it.
func isWithin(path, source string) bool {
	whole, err := os.Stat(source)
	if err != nil {
		return false
	}
	at := absolute(path)
	if dir, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
		at = filepath.Join(dir, filepath.Base(at))
	}
	for ; ; at = filepath.Dir(at) {
		if there, err := os.Stat(at); err == nil && os.SameFile(there, whole) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// begin writes what is replicated.
func (r *recording) begin(a *app, info object.Info, b send.Beginning, place string) (err error) {
	if r == nil {
		return nil
	}
	r.began = time.Now()
	head := record.Head{
		Name: info.Name, Length: info.Length, Profile: a.profile, Datagram: b.Datagram, Server: b.Sender.String(), Group: place, LAN: a.lan,
		Receivers: b.Joined, Began: r.began,
	}
	begun, lines := make(chan error, 1), make(chan record.Sample, waiting)
	r.written = make(chan error, 1)
	go r.write(head, lines, begun)
	select {
	case err = <-begun:
	case <-time.After(recordPatience):
		err = errRecordStands
	}
	if err != nil {
		close(lines)
		return recordError{err}
	}
	r.lines = lines
	return nil
}

// write writes the lines as they come. If it cannot, the replication goes on without them.
func (r *recording) write(head record.Head, lines <-chan record.Sample, begun chan<- error) {
	to, err := record.NewWriter(r.file, head)
	if err != nil {
		err = fmt.Errorf("record: %w", err)
	}
	begun <- err
	for sample := range lines {
		if err != nil {
			continue
		}
		if err = to.Write(sample); err != nil {
			err = fmt.Errorf("record: %w", err)
			r.log.Warn("the record goes no further", "error", err)
		}
	}
	r.written <- cmp.Or(err, r.file.Close())
}

// tell writes how far it is.
func (r *recording) tell(p send.Progress) {
	if r != nil {
		r.hand(p, time.Since(r.began))
	}
}

// end writes how it ended, and returns what was in the way of the record.
func (r *recording) end(result send.Result) error {
	switch {
	case r == nil:
		return nil
	case r.written == nil: // it has not begun
		return r.file.Close()
	case r.lines == nil: // and could not
		return nil
	}
	r.hand(send.Progress{
		Sent: result.Sent, Length: result.Info.Length, Members: result.Members, Window: result.Window, Counts: result.Counts, Bytes: result.Bytes,
	}, result.Took)
	close(r.lines)
	select {
	case err := <-r.written:
		if r.stands {
			err = cmp.Or(err, errRecordStands)
		}
		return err
	case <-time.After(recordPatience):
		return errRecordStands
	}
}

// hand hands on a line to be written. If too many wait, the record ends there.
func (r *recording) hand(p send.Progress, after time.Duration) {
	if r.lines == nil || r.stands {
		return
	}
	select {
	case r.lines <- sampleOf(p, after):
	default:
		r.stands = true
		r.log.Warn("the record goes no further", "error", errRecordStands)
	}
}

func sampleOf(p send.Progress, after time.Duration) record.Sample {
	s := record.Sample{
		Seconds: after.Round(time.Microsecond).Seconds(), Window: p.Window, Bytes: p.Bytes, Packets: p.Counts.Packets - p.Counts.Polls, Repairs: p.Counts.Repairs,
		Sent: p.Sent, Polls: p.Counts.Polls, Reports: p.Counts.Reports, Wanted: p.Counts.Wants, Trips: p.Counts.Trips, Timeouts: p.Counts.Timeouts,
	}
	landed := p.Length
	for _, m := range p.Members {
		switch m.Outcome {
		case algo.Running:
			s.Receiving++
			landed, s.Lost = min(landed, m.Landed), max(s.Lost, m.Lost)
			if m.Silent {
				s.Silent++
			}
		case algo.Complete:
			s.Complete++ // it has all
		case algo.Failed:
			s.Failed++
		default:
			s.GivenUp++
		}
	}
	if s.Receiving+s.Complete > 0 {
		s.Landed = landed
	}
	return s
}
