package alone

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/record"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// recording writes how a replication goes into a file. A nil recording writes nothing.
type recording struct {
	file  *os.File
	log   *slog.Logger
	began time.Time
	to    *record.Writer // nil before it has begun
	err   error          // nothing is written after it
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
	r.to, err = record.NewWriter(r.file, record.Head{
		Name: info.Name, Length: info.Length, Profile: a.profile, Datagram: b.Datagram, Server: b.Sender.String(), Group: place, LAN: a.lan,
		Receivers: b.Joined, Began: r.began,
	})
	if err != nil {
		r.to = nil
		return recordError{fmt.Errorf("record: %w", err)}
	}
	return nil
}

// tell writes how far it is.
func (r *recording) tell(p send.Progress) {
	if r != nil {
		r.write(p, time.Since(r.began))
	}
}

// end writes how it ended, and returns what was in the way of the record.
func (r *recording) end(result send.Result) error {
	if r == nil {
		return nil
	}
	r.write(send.Progress{
		Sent: result.Sent, Length: result.Info.Length, Members: result.Members, Window: result.Window, Counts: result.Counts, Bytes: result.Bytes,
	}, result.Took)
	return cmp.Or(r.err, r.file.Close())
}

// write writes a line. If it cannot, the replication goes on without, and at its end that is an error.
func (r *recording) write(p send.Progress, after time.Duration) {
	if r.to == nil || r.err != nil {
		return
	}
	if err := r.to.Write(sampleOf(p, after)); err != nil {
		r.err = fmt.Errorf("record: %w", err)
		r.log.Warn("the record goes no further", "error", err)
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
