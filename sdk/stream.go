package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/internal/digest"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/supply"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// StreamWriter is where a received stream goes. If it has a method Sync() error, a stream can be acknowledged as durable. If it has a method
// CloseWithError(error) error, as an io.PipeWriter has, that is called in place of Close when not all has come, so that nobody takes what
// came for the whole.
type StreamWriter interface {
	io.Writer
	io.Closer
}

// streamRoom is how much of a stream a sender keeps at most for members that have not acknowledged it. It reads on when they have.
const streamRoom = 1 << 30

// streamSpec returns the spec of a stream that comes from a reader.
func (o SendOptions) streamSpec(from io.Reader) (*groupv1.DeliverySpec, error) {
	if from == nil {
		return nil, &Error{Code: InvalidArgument, Message: "there is no reader to send from"}
	}
	if o.AckLevel == "" {
		o.AckLevel = Received
	}
	spec, err := o.spec()
	if err != nil {
		return nil, err
	}
	spec.Kind, spec.LengthUnknown = groupv1.DeliveryKind_DELIVERY_KIND_STREAM, true
	if spec.Name == "" {
		spec.Name = "stream"
	}
	return spec, nil
}

// SendStream delivers all that a reader gives, as it comes, to the members of the session's group that receive. What members have not
// acknowledged is kept in a temporary file; if that has no room left, reading waits until they have. A Read that blocks when the
// delivery ends goes on until the reader is closed: before that, the caller must not use the reader, even if Wait has returned.
//
// ctx only bounds the beginning. The stream goes on without it, until the reader ends or Outgoing.Cancel is called.
func (s *Session) SendStream(ctx context.Context, reader io.Reader, options SendOptions) (*Outgoing, error) {
	spec, err := options.streamSpec(reader)
	if err != nil {
		return nil, err
	}
	out, err := s.begin(ctx, spec)
	if err != nil {
		return nil, err
	}
	from := newStreamSupply(out)
	out.run(func(ctx context.Context) {
		defer from.Close()
		go from.read(ctx, reader) // a Read that blocks ends when the reader is closed
		out.feed(ctx, from)
	})
	return out, nil
}

// streamSupply feeds from a stream as it comes.
type streamSupply struct {
	*supply.Stream
	out    *Outgoing
	passed atomic.Uint64 // the members have all before this, as the first agent says
	acked  chan struct{} // holds a token when it has said so anew
}

func newStreamSupply(out *Outgoing) *streamSupply {
	return &streamSupply{Stream: supply.NewStream(os.TempDir(), 0), out: out, acked: make(chan struct{}, 1)}
}

// Acked notes what the first agent says that the members have.
func (s *streamSupply) Acked(upTo uint64, level relay.Level) error {
	if level == relay.Relayed {
		return nil // the agent has it itself
	}
	s.passed.Store(upTo)
	select {
	case s.acked <- struct{}{}:
	default: // whoever waits was told already
	}
	return nil
}

func (s *streamSupply) begin(version, _ uint64) {
	s.passed.Store(0) // another agent may know less
	s.Begin(version)
}

func (s *streamSupply) sentUpTo() uint64 { return s.SentUpTo() }
func (s *streamSupply) reads() uint64    { return 0 }
func (s *streamSupply) usable() error    { return nil }

// read keeps what comes until the stream ends, and then seals the delivery.
func (s *streamSupply) read(ctx context.Context, from io.Reader) {
	var hash digest.Hash
	buffer := make([]byte, 64<<10)
	from = supply.Reader(from)
	for s.awaitRoom(ctx) {
		n, err := from.Read(buffer)
		_, _ = hash.Write(buffer[:n])
		if failed := s.keep(ctx, buffer[:n]); failed != nil {
			s.out.fail(ctx, whyNotKept(failed), fmt.Errorf("the sender keeps what members have not acknowledged, in TMPDIR: %w", failed))
			return
		}
		if err == io.EOF {
			end := &link.End{Length: s.Arrived(), Root: hash.Sum()}
			s.End(end)
			s.out.seal(ctx, &groupv1.SealDeliveryRequest{Length: end.Length, Root: end.Root[:]})
			return
		}
		if err != nil {
			s.out.fail(ctx, "failed", fmt.Errorf("read the stream: %w", err))
			return
		}
	}
}

// whyNotKept is the reason why a sender cannot keep what it sends.
func whyNotKept(err error) string {
	if noroom.Is(err) {
		return "no_room"
	}
	return "failed"
}

// keep keeps what was read. If the disk is full, it waits until members have acknowledged what is kept, and the stream's source waits with
// it. If nothing is kept, others have filled the disk, and waiting would not help.
func (s *streamSupply) keep(ctx context.Context, p []byte) error {
	for {
		before := s.Arrived()
		err := s.Append(p)
		p = p[s.Arrived()-before:]
		if !noroom.Is(err) || s.Kept() == 0 || !s.await(ctx, s.ReleaseAll) {
			return err
		}
	}
}

// awaitRoom waits until members have acknowledged enough to read on.
func (s *streamSupply) awaitRoom(ctx context.Context) bool {
	return s.await(ctx, func(upTo uint64) bool {
		s.Release(upTo)
		return s.Kept() < streamRoom
	})
}

// await waits until isEnough, called with what members have acknowledged, says so.
func (s *streamSupply) await(ctx context.Context, isEnough func(upTo uint64) bool) bool {
	for {
		upTo, changed := s.acknowledged()
		if isEnough(upTo) {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-s.acked:
		case <-time.After(untold):
		case <-s.MoreSent():
		}
	}
}

// untold is how long managers may have told nothing of a stream before the sender goes by what its agent says. Of a stream that flows they
// have something to tell several times a second.
const untold = 2 * time.Second

// acknowledged returns up to where all members have the stream: as the managers say, who know who has failed, moved or gone; or, while they
// say nothing, or cannot say it of so many, as the agents do. The channel is closed when the answer may have changed.
func (s *streamSupply) acknowledged() (upTo uint64, changed <-chan struct{}) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	isUntold := time.Since(s.out.told) >= untold || slices.Contains(s.out.latest.LeftOut, "receipts")
	upTo = s.reported()
	if isUntold && !s.leavesOut() {
		upTo = max(upTo, s.passed.Load())
	}
	return upTo, s.out.changed
}

// leavesOut reports whether what the agents say leaves out members that were detached. It is called with s.out.mu held.
func (s *streamSupply) leavesOut() bool {
	delivery, _ := s.out.latest.message.(*groupv1.Delivery)
	return s.out.latest.ControlMode == EndToEnd && delivery.GetSpec().GetSlowMember().GetAction() == groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH
}

// reported returns up to where all members have the stream by the managers' word, except for those that have failed or are not heard of. One
// that is not heard of may never come back, and if it does, asks from the stream's beginning: nothing is kept for it. It is called with
// s.out.mu held.
func (s *streamSupply) reported() (upTo uint64) {
	if slices.Contains(s.out.latest.LeftOut, "receipts") {
		return 0 // receipts that are missing here may have fewer bytes
	}
	if len(s.out.latest.Receipts) > 0 {
		upTo = relay.MaxOffset
	}
	told := 0
	for _, receipt := range s.out.latest.Receipts {
		if receipt.Late {
			continue
		}
		told++
		if receipt.State != ReceiptFailed && receipt.State != ReceiptUnknown {
			upTo = min(upTo, receipt.Bytes)
		}
	}
	if told < s.out.latest.Members {
		return 0 // a manager that stops leading only knows who is done
	}
	return upTo
}

// syncer is a StreamWriter that can be acknowledged as durable.
type syncer interface{ Sync() error }

var errNotDurable = errors.New("a stream to this member cannot be made durable: ask for received")

// finish puts all of a stream where it belongs: on disk, if it has to be durable, and under its name, if it goes into a file.
func finish(to StreamWriter, durable bool) error {
	if file, is := to.(*streamFile); is {
		return file.place(durable)
	}
	if durable {
		return to.(syncer).Sync()
	}
	return nil
}

// receiveStream takes a stream to its end.
func (r *receiving) receiveStream(ctx context.Context) Arrived {
	to, err := r.openStream()
	if err != nil {
		return r.failed(r.whyNotOpened(err), err)
	}
	return r.closed(r.takeStream(ctx, to), to)
}

// closed closes the writer of a stream, and adds where the stream is. Closing may fail, as when the writer is buffered or compresses.
func (r *receiving) closed(one Arrived, to StreamWriter) Arrived {
	if file, is := to.(*streamFile); is {
		one.Path = file.path
	}
	broken, tells := to.(interface{ CloseWithError(err error) error })
	if one.Err != nil && tells {
		_ = broken.CloseWithError(one.Err)
		return one
	}
	if err := to.Close(); err != nil && one.Err == nil {
		return r.failedStream(fmt.Errorf("close what the stream went to: %w", err))
	}
	return one
}

// leavable writes to a writer that may block for ever, as a pipe that nobody reads. When ctx is done, it no longer waits for such a Write.
type leavable struct {
	ctx context.Context
	to  io.Writer
}

func (w *leavable) Write(p []byte) (int, error) {
	type written struct {
		n   int
		err error
	}
	done, kept := make(chan written, 1), bytes.Clone(p) // the caller goes on with p
	go func() {
		n, err := w.to.Write(kept)
		done <- written{n, err}
	}()
	select {
	case all := <-done:
		return all.n, all.err
	case <-w.ctx.Done():
		return 0, w.ctx.Err()
	}
}

// takeStream takes a stream to its end.
func (r *receiving) takeStream(ctx context.Context, to StreamWriter) Arrived {
	var hash digest.Hash
	durable := r.isDurable()
	if _, can := to.(syncer); durable && !can {
		return r.failed("refused", errNotDurable)
	}
	into := io.Writer(to)
	if r.options.Stream != nil {
		into = &leavable{ctx, to}
	}
	if err := r.takeAll(ctx, &streamStore{r, io.MultiWriter(into, &hash)}, nil); err != nil {
		return r.failedStream(err)
	}
	assignment, err := r.session.attendance.await(ctx, r.id, func(a *groupv1.Assignment) bool { return a == nil || a.GetSealed() || a.GetEnded() })
	if err != nil {
		return r.failedStream(err)
	}
	switch {
	case !assignment.GetSealed():
		return r.failedStream(endedEarly(assignment))
	case object.Root(assignment.GetRoot()) != hash.Sum():
		return r.failedStream(object.ErrDamaged)
	}
	if err := finish(to, durable); err != nil {
		return r.failedStream(err)
	}
	r.root = assignment.GetRoot()
	return Arrived{Incoming: r.incoming, Bytes: r.has(), Root: r.root}
}

func (r *receiving) failedStream(err error) Arrived {
	return r.failed(reasonOf(err), err)
}

var errNoWriter = errors.New("the program names no place for the stream")

// whyNotOpened is the reason why there is no place for a stream. If the program chooses places, it has refused this stream.
func (r *receiving) whyNotOpened(err error) string {
	if r.options.Stream != nil {
		return "refused"
	}
	return reasonOf(err)
}

// openStream opens what the stream goes to.
func (r *receiving) openStream() (to StreamWriter, err error) {
	if r.options.Stream != nil {
		if to, err = r.options.Stream(r.incoming); to == nil && err == nil {
			err = errNoWriter
		}
		return to, err
	}
	return createStream(r.options.Into, r.info.Name)
}
