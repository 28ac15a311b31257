package link

import (
	"context"
	"fmt"
	"io"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Store is where a child puts what it is fed.
type Store interface {
	// Section returns where the bytes from an offset on go, and how many fit there.
	Section(offset uint64) (to io.Writer, most int64, err error)
	// Landed says that all before an offset was written.
	Landed(upTo uint64) error
	// End says what all is.
	End(End) error
	// Answer returns what the parent is to know now.
	Answer() Answer
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

// taking is a link seen from the child.
type taking struct {
	conn    *Conn
	store   Store
	offset  uint64
	version uint64 // of the tree, as the parent last said: it only grows
	done    bool   // the parent was told that nothing more is wanted
}

// Take takes what a parent sends, from an offset on, until the store is done, which is
// nil, or the link breaks, or ctx is done. It closes the link.
func Take(ctx context.Context, conn *Conn, from uint64, store Store) error {
	t := &taking{conn: conn, store: store, offset: from}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		cancel(t.answer(ctx))
		conn.Close() // whoever is reading ends
	}()
	err := t.read()
	conn.Close()
	cancel(err)
	<-answered
	if t.done {
		return nil
	}
	return context.Cause(ctx)
}

// read takes frames until the link breaks.
func (t *taking) read() error {
	for {
		header, err := t.conn.readHeader()
		if err != nil {
			return err
		}
		if header.TreeVersion < t.version && header.Type != wire.Bye {
			return fmt.Errorf("%w: tree version %d after %d", wire.ErrProtocol, header.TreeVersion, t.version)
		}
		t.version = max(t.version, header.TreeVersion)
		switch header.Type {
		case wire.Data:
			err = t.data(header)
		case wire.End:
			err = t.end(header)
		case wire.Status:
		case wire.Bye:
			return t.conn.bye(header)
		default:
			err = fmt.Errorf("%w: %v from a parent", wire.ErrProtocol, header.Type)
		}
		if err != nil {
			return err
		}
	}
}

// data lands a payload. Bytes come in order, and only those that may.
func (t *taking) data(header wire.Header) error {
	if header.Offset != t.offset {
		return fmt.Errorf("%w: DATA at offset %d: want %d", wire.ErrProtocol, header.Offset, t.offset)
	}
	if credit := t.store.Answer().Credit; header.Offset+uint64(header.Length) > credit {
		return fmt.Errorf("%w: DATA beyond the credit of %d", wire.ErrProtocol, credit)
	}
	for left := int64(header.Length); left > 0; {
		to, most, err := t.store.Section(t.offset)
		if err != nil {
			return err
		}
		moved, err := t.conn.receive(to, min(left, most))
		t.offset += uint64(moved)
		left -= moved
		if moved > 0 {
			if err := t.store.Landed(t.offset); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *taking) end(header wire.Header) error {
	root, err := t.conn.readPayload(header.Length)
	if err != nil {
		return err
	}
	if header.Offset != t.offset {
		return fmt.Errorf("%w: END at offset %d: %d came", wire.ErrProtocol, header.Offset, t.offset)
	}
	return t.store.End(End{header.Offset, [wire.RootSize]byte(root)})
}

// answer tells the parent what changes, and that this child lives.
func (t *taking) answer(ctx context.Context) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	var told Answer
	for {
		now := t.store.Answer()
		if frames := now.since(told); len(frames) > 0 {
			if err := t.conn.Send(frames); err != nil {
				return err
			}
			told = now
			beat.Reset(heartbeat)
		}
		if now.Done {
			return t.farewell(ctx, now)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-now.Changed:
			if !pause(ctx, answerPause) {
				return context.Cause(ctx)
			}
		case <-beat.C:
			status := wire.Header{Type: wire.Status, Offset: now.Ack, TreeVersion: now.TreeVersion}
			if err := t.conn.Send(status.Append(nil)); err != nil {
				return err
			}
			beat.Reset(heartbeat)
		}
	}
}

// farewell says that nothing more is wanted, and gives the parent time to close: a
// connection that is closed with something unread in it takes back what was said.
func (t *taking) farewell(ctx context.Context, now Answer) error {
	if err := t.conn.Send(wire.AppendBye(nil, wire.Done, "", now.Ack, now.TreeVersion)); err != nil {
		return err
	}
	t.done = true
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
