package link

import (
	"fmt"
	"io"

	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// place returns where bytes from an offset on go, and how many of them; bytes that have landed before are discarded.
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
	if err == nil && most <= 0 { // going on would never end
		err = fmt.Errorf("%w: DATA at offset %d, where nothing goes", wire.ErrProtocol, at)
	}
	return to, min(left, most), err
}

// isStriped reports whether bytes may come in any order.
func (t *Taking) isStriped() bool { return t.options.Bounds.Most > 1 }

// mostApart is how many runs that do not touch each other may have landed. An honest sender has about one for each stripe, and one
// for each frame that is held up on a stripe that stands still: a socket holds a thousand of the smallest. A sender that left out every
// second byte could make millions of them, and they are searched with every frame.
const mostApart = 4096

// land notes that bytes have been written where they belong.
func (t *Taking) land(run span) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.landed = t.landed.add(run)
	if len(t.landed) > mostApart {
		return fmt.Errorf("%w: more than %d pieces with others missing between them", wire.ErrProtocol, mostApart)
	}
	if t.landed[0].from > t.upTo {
		return nil
	}
	if first := t.landed[0]; first.to > t.upTo {
		t.upTo = first.to
		t.has.Store(t.upTo)
		if err := t.store.Landed(t.upTo); err != nil {
			return err
		}
	}
	t.landed = t.landed.after(t.upTo)
	return t.tell()
}

// ended takes the end: length and root.
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

// tell tells the store the end when everything has landed. It is called with t.mu held.
func (t *Taking) tell() error {
	switch {
	case t.end == nil || t.told || t.upTo < t.end.Length:
		return nil
	case t.upTo > t.end.Length:
		return fmt.Errorf("%w: %d bytes came of %d", wire.ErrProtocol, t.upTo, t.end.Length)
	}
	t.told = true
	return t.store.End(*t.end)
}
