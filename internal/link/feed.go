package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Feeding is a link seen from the parent. Its stripes share what is to be sent: each takes the next
// piece when its connection can take more, so that a slow stripe keeps nothing from the others.
type Feeding struct {
	stripes
	supply Supply
	from   uint64 // the child had all before it

	mu      sync.Mutex
	choice  parallel.Choice
	lines   []*line // the stripes, in the order of their coming
	next    uint64  // everything before it was given to a stripe
	again   spans   // what was on its way on a stripe that broke, or stands still
	has     uint64  // the child has everything before it
	credit  uint64
	version uint64        // of the tree, as last told
	changed chan struct{} // closed when a stripe may have something to do
}

// NewFeeding returns the link to a child that wants everything from an offset on.
func NewFeeding(ctx context.Context, from uint64, supply Supply, options Options) *Feeding {
	f := &Feeding{supply: supply, from: from, next: from, has: from, credit: from, changed: make(chan struct{})}
	f.choice = parallel.New(0, 0, parallel.Bounds{}).Choice()
	f.begin(ctx, options, f.feed)
	return f
}

// Run feeds the child over a first stripe and those that join it, until the child says
// that it is done, which is nil, or all of them broke, or the context is done. It closes them.
func (f *Feeding) Run(conn *Conn) error {
	var tuning sync.WaitGroup
	tuning.Go(func() { f.tune(conn) })
	defer tuning.Wait()
	if err := f.run(conn); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// Carried returns, when the link has ended, how many bytes of payload it has sent, including bytes that
// were sent twice, and how many the child said that it has. The child received at least the latter, and at most the former.
func (f *Feeding) Carried() (sent, landed uint64) {
	sent, _ = f.carried()
	f.mu.Lock()
	defer f.mu.Unlock()
	return sent, f.has - f.from
}

// feed feeds over one stripe.
func (f *Feeding) feed(ctx context.Context, conn *Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Once it is over, whatever waits for the connection is given only the time that it takes to say why.
	defer context.AfterFunc(ctx, func() { conn.raw.SetWriteDeadline(time.Now().Add(heartbeat)) })()
	if !f.options.Steered { // otherwise the other end sees to queues
		conn.smooth()
	}
	l := f.attach(conn)
	defer f.detach(l)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		cancel(f.listen(conn))
		conn.Close() // this ends the sending
	}()
	err := f.send(ctx, l)
	var bye *Bye
	if errors.As(err, &bye) {
		farewell(l, bye, listened)
	}
	conn.Close()
	<-listened
	// What the child said explains more than how the link then ended; that it is closed now explains nothing.
	if cause := context.Cause(ctx); bye == nil && cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, net.ErrClosed) {
		return cause
	}
	return err
}

// errDone says that a child has all that it wants.
var errDone = errors.New("done")

// farewell tells the child why the link ends, and gives it time to close: closing a connection with
// unread bytes in it would discard what was said last.
func farewell(l *line, bye *Bye, closed <-chan struct{}) {
	l.conn.raw.SetWriteDeadline(time.Now().Add(heartbeat))
	if l.conn.Send(wire.AppendBye(nil, bye.Reason, bye.Text, cmp.Or(bye.Offset, l.offset), 0)) != nil {
		return // it finds the link closed
	}
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// send sends what there is and, when there is nothing, signs of life.
func (f *Feeding) send(ctx context.Context, l *line) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		task, err := f.claim(l)
		if isBroken(err) {
			return err
		}
		if err != nil {
			f.end(err)
			return err
		}
		more, err := f.do(l, task)
		if err != nil {
			return err
		}
		if more {
			beat.Reset(heartbeat)
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-task.changed:
		case <-task.Changed:
		case <-beat.C:
			if err := f.say(l, wire.Status, l.offset, nil); err != nil {
				return err
			}
			f.relieve(l)
			beat.Reset(heartbeat)
		}
	}
}

// do does a task, and reports whether there may be another at once.
func (f *Feeding) do(l *line, t task) (more bool, err error) {
	switch {
	case t.stripes > 0:
		return true, f.say(l, wire.Stripes, uint64(t.stripes), nil)
	case t.Length > 0:
		return true, f.sendPortion(l, t)
	case t.End != nil && !l.ended:
		l.ended = true
		return false, f.say(l, wire.End, t.End.Length, t.End.Root[:])
	}
	return false, nil
}

// say sends a frame that is not DATA.
func (f *Feeding) say(l *line, what wire.Type, offset uint64, payload []byte) error {
	f.mu.Lock()
	header := wire.Header{Type: what, Length: uint32(len(payload)), Offset: offset, TreeVersion: f.version}
	f.mu.Unlock()
	return l.conn.Send(append(header.Append(nil), payload...))
}

func (f *Feeding) sendPortion(l *line, t task) error {
	header := wire.Header{Type: wire.Data, Length: uint32(t.Length), Offset: t.offset, TreeVersion: t.TreeVersion}
	err := l.conn.sendFile(header, t.File, int64(t.At))
	l.offset = t.offset + t.Length
	f.supply.Sent(t.offset, t.Portion)
	return err
}

// listen hears what the child says on a stripe until the child is done or the stripe breaks.
func (f *Feeding) listen(conn *Conn) error {
	for {
		if err := f.hear(conn); err != nil {
			if !isBroken(err) {
				f.end(err)
			}
			return err
		}
	}
}

func (f *Feeding) hear(conn *Conn) error {
	header, err := conn.readHeader()
	if err != nil {
		return err
	}
	switch header.Type {
	case wire.Ack:
		f.landed(header.Offset)
		return f.supply.Acked(header.Offset, header.Level)
	case wire.Credit:
		f.grant(header.Offset)
		if f.options.Granted != nil {
			f.options.Granted(header.Offset)
		}
	case wire.Status:
		f.landed(header.Offset)
	case wire.Bye:
		return conn.bye(header)
	default:
		return fmt.Errorf("%w: %v from a child", wire.ErrProtocol, header.Type)
	}
	return nil
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
