package link

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Store is where a child puts what it is fed.
type Store interface {
	// Section returns where the bytes from an offset on go, and how many fit there.
	Section(offset uint64) (to Place, most int64, err error)
	// Landed says that all before an offset was written.
	Landed(upTo uint64) error
	// End says what all is.
	End(End) error
	// Answer returns what the parent is to know now.
	Answer() Answer
}

// Place is where bytes go: into a file from a position on, in any order; or, if there is
// no file, to a writer, one after the other.
type Place struct {
	File *os.File
	At   int64
	To   io.Writer
}

// writer returns the place as a writer.
func (p Place) writer() io.Writer {
	if p.File != nil {
		return io.NewOffsetWriter(p.File, p.At)
	}
	return p.To
}

// Answer is what a child tells its parent.
type Answer struct {
	Ack         uint64     // all before it is acknowledged,
	Level       wire.Level // and what that means
	Credit      uint64     // all before it may be sent
	TreeVersion uint64
	Done        bool            // nothing more is wanted
	Changed     <-chan struct{} // closed when asking again brings something else
}

// answerPause is how long small changes are collected before the parent is told.
const answerPause = 5 * time.Millisecond

// Taking is a link seen from the child. What its stripes bring goes to where it belongs, in
// whatever order it comes; what all has come before is the store's.
type Taking struct {
	stripes
	store Store

	mu     sync.Mutex
	upTo   uint64 // all before it has landed,
	landed spans  // and these behind it
	end    *End
	told   bool // the store knows the end
	bid    bool // the parent was told that nothing more is wanted
}

// NewTaking returns the link to a parent of which all from an offset on is wanted.
func NewTaking(ctx context.Context, from uint64, store Store, options Options) *Taking {
	t := &Taking{store: store, upTo: from}
	t.begin(ctx, options, t.take)
	return t
}

// Take takes what a parent sends over one connection, from an offset on, until the store is
// done, which is nil, or the link breaks, or ctx is done. It closes the link.
func Take(ctx context.Context, conn *Conn, from uint64, store Store) error {
	return NewTaking(ctx, from, store, Options{}).Run(conn)
}

// Run takes what comes over a first stripe and those that join it, until the store is
// done, which is nil, or all of them broke, or the context is done.
func (t *Taking) Run(conn *Conn) error {
	err := t.run(conn)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bid {
		return nil
	}
	return err
}

// take takes what comes over one stripe.
func (t *Taking) take(ctx context.Context, conn *Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		cancel(t.answer(ctx, conn))
		conn.Close() // whoever is reading ends
	}()
	err := t.read(conn)
	conn.Close()
	cancel(err)
	<-answered
	return context.Cause(ctx)
}

// read takes frames until the stripe breaks.
func (t *Taking) read(conn *Conn) error {
	var version uint64 // of the tree, as the parent last said here: it only grows
	for {
		header, err := conn.readHeader()
		if err == nil && header.TreeVersion < version && header.Type != wire.Bye {
			err = fmt.Errorf("%w: tree version %d after %d", wire.ErrProtocol, header.TreeVersion, version)
		}
		if err == nil {
			version = max(version, header.TreeVersion)
			err = t.heed(conn, header)
		}
		if err != nil {
			if !isBroken(err) {
				t.stripes.end(err)
			}
			return err
		}
	}
}

func (t *Taking) heed(conn *Conn, header wire.Header) error {
	switch header.Type {
	case wire.Data:
		return t.data(conn, header)
	case wire.End:
		return t.ended(conn, header)
	case wire.Stripes:
		t.want(int(header.Offset))
	case wire.Status:
	case wire.Bye:
		return conn.bye(header)
	default:
		return fmt.Errorf("%w: %v from a parent", wire.ErrProtocol, header.Type)
	}
	return nil
}

// data lands a payload. Only bytes come that may; and those of a single stripe in order.
func (t *Taking) data(conn *Conn, header wire.Header) error {
	at, left := header.Offset, int64(header.Length)
	if credit := t.store.Answer().Credit; at+uint64(left) > credit {
		return fmt.Errorf("%w: DATA beyond the credit of %d", wire.ErrProtocol, credit)
	}
	for left > 0 {
		to, most, err := t.place(at, left)
		if err != nil {
			return err
		}
		moved, err := conn.receive(to, most)
		if moved > 0 {
			if err := t.land(span{at, at + uint64(moved)}); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		at += uint64(moved)
		left -= moved
	}
	return nil
}

// place returns where bytes from an offset on go: nowhere, if they have landed before.
func (t *Taking) place(at uint64, left int64) (to Place, most int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at < t.upTo && t.isStriped() {
		return Place{To: io.Discard}, min(left, int64(t.upTo-at)), nil
	}
	if at != t.upTo && !t.isStriped() {
		return Place{}, 0, fmt.Errorf("%w: DATA at offset %d: want %d", wire.ErrProtocol, at, t.upTo)
	}
	if run, found := t.landed.next(at); found && run.from <= at {
		return Place{To: io.Discard}, min(left, int64(run.to-at)), nil
	} else if found {
		left = min(left, int64(run.from-at))
	}
	to, most, err = t.store.Section(at)
	return to, min(left, most), err
}

// isStriped reports whether bytes may come in any order.
func (t *Taking) isStriped() bool { return t.options.Bounds.Most > 1 }

// land notes that bytes are where they belong.
func (t *Taking) land(run span) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.landed = t.landed.add(run)
	if t.landed[0].from > t.upTo {
		return nil
	}
	if first := t.landed[0]; first.to > t.upTo {
		t.upTo = first.to
		if err := t.store.Landed(t.upTo); err != nil {
			return err
		}
	}
	t.landed = t.landed.after(t.upTo)
	return t.tell()
}

// ended takes what all is.
func (t *Taking) ended(conn *Conn, header wire.Header) error {
	root, err := conn.readPayload(header.Length)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	end := End{header.Offset, [wire.RootSize]byte(root)}
	switch {
	case t.end != nil && *t.end != end:
		return fmt.Errorf("%w: END at offset %d after END at %d", wire.ErrProtocol, end.Length, t.end.Length)
	case end.Length < t.upTo, end.Length != t.upTo && !t.isStriped():
		return fmt.Errorf("%w: END at offset %d: %d came", wire.ErrProtocol, end.Length, t.upTo)
	}
	t.end = &end
	return t.tell()
}

// tell tells the store the end when all has landed.
func (t *Taking) tell() error {
	if t.end == nil || t.told || t.upTo != t.end.Length {
		return nil
	}
	t.told = true
	return t.store.End(*t.end)
}

// answer tells the parent what changes, and that this child lives. All stripes do: what is
// said on one that is slow was said on another before.
func (t *Taking) answer(ctx context.Context, conn *Conn) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	var told Answer
	for {
		now := t.store.Answer()
		if frames := now.since(told); len(frames) > 0 {
			if err := conn.Send(frames); err != nil {
				return err
			}
			told = now
			if !t.isStriped() { // of stripes, the parent has to know what has come, too
				beat.Reset(heartbeat)
			}
		}
		if now.Done {
			return t.farewell(ctx, conn, now)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-now.Changed:
			if !pause(ctx, answerPause*time.Duration(t.living())) {
				return context.Cause(ctx)
			}
		case <-beat.C:
			status := wire.Header{Type: wire.Status, Offset: t.has(), TreeVersion: now.TreeVersion}
			if err := conn.Send(status.Append(nil)); err != nil {
				return err
			}
			beat.Reset(heartbeat)
		}
	}
}

// has returns up to where everything has come.
func (t *Taking) has() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.upTo
}

// farewell says that nothing more is wanted, and gives the parent time to close: a
// connection that is closed with something unread in it takes back what was said.
func (t *Taking) farewell(ctx context.Context, conn *Conn, now Answer) error {
	t.finish()
	if err := conn.Send(wire.AppendBye(nil, wire.Done, "", now.Ack, now.TreeVersion)); err != nil {
		return err
	}
	t.mu.Lock()
	t.bid = true
	t.mu.Unlock()
	pause(ctx, heartbeat)
	return errDone
}

// since returns the frames that tell what has changed.
func (a Answer) since(told Answer) (frames []byte) {
	if a.Ack != told.Ack || a.Level != told.Level {
		frames = wire.Header{Type: wire.Ack, Level: a.Level, Offset: a.Ack, TreeVersion: a.TreeVersion}.Append(frames)
	}
	if a.Credit != told.Credit {
		frames = wire.Header{Type: wire.Credit, Offset: a.Credit, TreeVersion: a.TreeVersion}.Append(frames)
	}
	return frames
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
