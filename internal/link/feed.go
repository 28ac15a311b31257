package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// blockSize is the most that one frame carries.
const blockSize = 1 << 20

// Ended says that the other end ended the link, and why.
type Ended struct {
	Reason wire.Reason
	Text   string
	Offset uint64
}

func (e *Ended) Error() string {
	if e.Text == "" {
		return "link ended: " + e.Reason.String()
	}
	return fmt.Sprintf("link ended: %v: %s", e.Reason, e.Text)
}

// Portion is what a child can be sent now.
type Portion struct {
	// The bytes are in File from At on, Length of them; zero for none.
	File   *os.File
	At     uint64
	Length uint64
	// End is set when all was sent before, and it is known what all is.
	End *End
	// Changed is closed when asking again can bring something else.
	Changed <-chan struct{}
	// TreeVersion is that of the tree by which the child is fed.
	TreeVersion uint64
}

// End is the end of an object.
type End struct {
	Length uint64
	Root   [wire.RootSize]byte
}

// Supply is where a parent takes from what it feeds one child.
type Supply interface {
	// Next returns what there is for the child from an offset on, at most so many bytes.
	// An error ends the link; a *Bye tells the child why.
	Next(offset, most uint64) (Portion, error)
	// Sent says that a portion has been sent up to here, or as much of it as could be.
	Sent(upTo uint64)
	// Acked says what the child acknowledges. An error ends the link.
	Acked(upTo uint64, level wire.Level) error
}

// Bye ends a link from this side.
type Bye struct {
	Reason wire.Reason
	Text   string
}

func (b *Bye) Error() string { return fmt.Sprintf("%v: %s", b.Reason, b.Text) }

// feeding is a link seen from the parent.
type feeding struct {
	conn   *Conn
	supply Supply
	offset uint64

	mu      sync.Mutex
	credit  uint64
	changed chan struct{} // closed when the credit grows
}

// Feed feeds a child from an offset on until it says that it is done, which is nil,
// or the link breaks, or ctx is done. It closes the link.
func Feed(ctx context.Context, conn *Conn, from uint64, supply Supply) error {
	f := &feeding{conn: conn, supply: supply, offset: from, credit: from, changed: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		cancel(f.listen())
		conn.Close() // whoever is sending ends
	}()
	err := f.send(ctx)
	var bye *Bye
	if errors.As(err, &bye) {
		f.farewell(bye, listened)
	}
	conn.Close()
	<-listened
	// What the child said is nearer to the cause than what became of the link.
	if cause := context.Cause(ctx); errors.Is(cause, errDone) {
		return nil
	} else if bye == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// errDone says that a child has all that it wants.
var errDone = errors.New("done")

// farewell tells the child why the link ends, and gives it time to close: a connection
// that is closed with something unread in it takes back what was said.
func (f *feeding) farewell(bye *Bye, closed <-chan struct{}) {
	f.conn.raw.SetWriteDeadline(time.Now().Add(heartbeat))
	if f.conn.Send(wire.AppendBye(nil, bye.Reason, bye.Text, f.offset, 0)) != nil {
		return // it finds the link closed
	}
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// send sends what there is, and a sign of life when there is nothing.
func (f *feeding) send(ctx context.Context) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	ended := false
	for {
		credit, granted := f.granted()
		portion, err := f.supply.Next(f.offset, min(blockSize, credit-min(credit, f.offset)))
		if err != nil {
			return err
		}
		switch {
		case portion.Length > 0:
			if err := f.sendPortion(portion); err != nil {
				return err
			}
			beat.Reset(heartbeat)
			continue
		case portion.End != nil && !ended:
			ended = true
			header := wire.Header{Type: wire.End, Length: wire.RootSize, Offset: portion.End.Length, TreeVersion: portion.TreeVersion}
			if err := f.conn.Send(append(header.Append(nil), portion.End.Root[:]...)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-granted:
		case <-portion.Changed:
		case <-beat.C:
			status := wire.Header{Type: wire.Status, Offset: f.offset, TreeVersion: portion.TreeVersion}
			if err := f.conn.Send(status.Append(nil)); err != nil {
				return err
			}
			beat.Reset(heartbeat)
		}
	}
}

func (f *feeding) sendPortion(portion Portion) error {
	header := wire.Header{Type: wire.Data, Length: uint32(portion.Length), Offset: f.offset, TreeVersion: portion.TreeVersion}
	err := f.conn.sendFile(header, portion.File, int64(portion.At))
	f.offset += portion.Length
	f.supply.Sent(f.offset)
	return err
}

func (f *feeding) granted() (credit uint64, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.credit, f.changed
}

func (f *feeding) grant(credit uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if credit > f.credit {
		f.credit = credit
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// listen takes what the child says until it is done or the link breaks.
func (f *feeding) listen() error {
	for {
		header, err := f.conn.readHeader()
		if err != nil {
			return err
		}
		switch header.Type {
		case wire.Ack:
			err = f.supply.Acked(header.Offset, header.Level)
		case wire.Credit:
			f.grant(header.Offset)
		case wire.Status:
		case wire.Bye:
			return f.conn.bye(header)
		default:
			err = fmt.Errorf("%w: %v from a child", wire.ErrProtocol, header.Type)
		}
		if err != nil {
			return err
		}
	}
}

// bye reads the rest of a BYE.
func (c *Conn) bye(header wire.Header) error {
	payload, err := c.readPayload(header.Length)
	if err != nil {
		return err
	}
	reason, text, err := wire.ParseBye(payload)
	switch {
	case err != nil:
		return err
	case reason == wire.Done:
		return errDone
	}
	return &Ended{reason, text, header.Offset}
}
