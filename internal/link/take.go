package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/internal/pause"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// answerPause is how long small changes are collected before the parent is told.
const answerPause = 5 * time.Millisecond

// Taking is a link seen from the child. What its stripes bring goes to where it belongs, in
// whatever order it comes; the store is told up to where everything has come.
type Taking struct {
	stripes
	store Store

	mu     sync.Mutex
	upTo   uint64 // everything before it has landed,
	landed spans  // and these runs behind it
	end    *End
	told   bool // the store knows the end
	bid    bool // the parent has been told that nothing more is wanted

	has atomic.Uint64 // everything before it has landed; for callers that do not wait for the store, which may take its time
}

// NewTaking returns the link to a parent from which everything from an offset on is wanted.
func NewTaking(ctx context.Context, from uint64, store Store, options Options) *Taking {
	t := &Taking{store: store, upTo: from}
	t.has.Store(from)
	t.begin(ctx, options, t.take)
	return t
}

// Run takes what comes over a first stripe and those that join it, until the store is
// done, which is nil, or all of them broke, or the context is done. It closes them.
func (t *Taking) Run(conn *Conn) error {
	err := t.run(conn)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bid {
		return nil
	}
	return err
}

// Carried returns, when the link has ended, how many bytes of payload came over it, including bytes that
// came twice.
func (t *Taking) Carried() (received uint64) {
	_, received = t.carried()
	return received
}

// take takes what comes over one stripe.
func (t *Taking) take(ctx context.Context, conn *Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		cancel(t.answer(ctx, conn))
		conn.Close() // this ends the reading
	}()
	err := t.read(conn)
	cancel(err) // before answers find the connection closed: that is not why
	conn.Close()
	<-answered
	return context.Cause(ctx)
}

// read takes frames until the stripe breaks.
func (t *Taking) read(conn *Conn) error {
	var version uint64 // of the tree, as the parent last told it on this stripe: it never decreases
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

// data lands a payload. Only bytes that were asked for may come, and those of a single stripe in order.
func (t *Taking) data(conn *Conn, header wire.Header) error {
	at, left := header.Offset, int64(header.Length)
	if credit := t.store.Answer().Credit; at+uint64(left) > credit {
		return fmt.Errorf("%w: DATA beyond the credit of %d", wire.ErrProtocol, credit)
	}
	for left > 0 {
		conn.storing.Store(true) // the store may wait for its disk before it knows
		to, most, err := t.place(at, left)
		conn.storing.Store(false)
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

// answer tells the parent what changes, and that this child lives. All stripes do: what a slow
// stripe says was said on another before.
func (t *Taking) answer(ctx context.Context, conn *Conn) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	told := conn.told
	for {
		now := t.store.Answer()
		if frames := now.since(told); len(frames) > 0 {
			if err := conn.Send(frames); err != nil {
				return err
			}
			told = now
			if !t.isStriped() { // of several stripes, the parent has to know what has come, too
				beat.Reset(heartbeat)
			}
		}
		if now.Done {
			return t.farewell(ctx, conn, now)
		}
		select {
		case <-ctx.Done():
			return t.depart(ctx, conn, now)
		case <-now.Changed:
			if !pause.For(ctx, answerPause*time.Duration(t.living())) {
				return t.depart(ctx, conn, now)
			}
		case <-beat.C:
			status := wire.Header{Type: wire.Status, Offset: t.has.Load(), TreeVersion: now.TreeVersion}
			if err := conn.Send(status.Append(nil)); err != nil {
				return err
			}
			beat.Reset(heartbeat)
		}
	}
}

// ErrElsewhere ends a link, as the cause of its context, whose child asks its parent again, from another offset.
var ErrElsewhere = errors.New("the child asks from another offset")

// depart tells the parent if this child is about to ask from elsewhere: it has not lost its child then. If the parent does not get to
// hear that, it finds the link closed.
func (t *Taking) depart(ctx context.Context, conn *Conn, now Answer) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrElsewhere) {
		_ = conn.Send(wire.AppendBye(nil, wire.Moved, "it asks from another offset", now.Ack, now.TreeVersion))
	}
	return cause
}

// farewell says that nothing more is wanted, and gives the parent time to close: closing a
// connection with unread bytes in it would discard what was said last.
func (t *Taking) farewell(ctx context.Context, conn *Conn, now Answer) error {
	t.finish()
	if err := conn.Send(wire.AppendBye(nil, wire.Done, "", now.Ack, now.TreeVersion)); err != nil {
		return err
	}
	t.mu.Lock()
	t.bid = true
	t.mu.Unlock()
	pause.For(ctx, heartbeat)
	return errDone
}
