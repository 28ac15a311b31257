package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
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

// Supply is where a parent takes from what it feeds one child. Stripes ask it one after
// the other, and send at once.
type Supply interface {
	// Next returns what there is for the child from an offset on, at most so many bytes.
	// An error ends the link; a *Bye tells the child why.
	Next(offset, most uint64) (Portion, error)
	// Sent says that a portion from an offset on has been sent, or as much of it as could be.
	Sent(offset uint64, portion Portion)
	// Acked says what the child acknowledges. An error ends the link.
	Acked(upTo uint64, level wire.Level) error
}

// Bye ends a link from this side.
type Bye struct {
	Reason wire.Reason
	Text   string
}

func (b *Bye) Error() string { return fmt.Sprintf("%v: %s", b.Reason, b.Text) }

// Feeding is a link seen from the parent. Its stripes share what is to be sent: each takes
// the next piece when its connection takes more, so that a slow one keeps none
// from the others.
type Feeding struct {
	stripes
	supply Supply

	mu      sync.Mutex
	choice  parallel.Choice
	lines   []*line // the stripes, in the order of their coming
	next    uint64  // all before was given to a stripe
	again   spans   // that were on their way on a stripe that broke, or stands still
	has     uint64  // all before is at the child
	credit  uint64
	version uint64        // of the tree, as last told
	changed chan struct{} // closed when a stripe may have something to do
}

// line is one stripe of it.
type line struct {
	conn   *Conn
	given  spans // that were given to it, and are not acknowledged
	told   int   // the number of stripes that it last told of
	ended  bool  // it has told the end
	offset uint64
	idle   [2]uint64 // what was next when it had nothing to do: at the last two beats, the older first
	helped uint64    // what was given to it before this was given to others, too
}

// NewFeeding returns the link to a child that wants all from an offset on.
func NewFeeding(ctx context.Context, from uint64, supply Supply, options Options) *Feeding {
	f := &Feeding{supply: supply, next: from, has: from, credit: from, changed: make(chan struct{})}
	f.choice = parallel.New(0, 0, parallel.Bounds{}).Choice()
	f.begin(ctx, options, f.feed)
	return f
}

// Feed feeds a child over one connection from an offset on until it says that it is done,
// which is nil, or the link breaks, or ctx is done. It closes the link.
func Feed(ctx context.Context, conn *Conn, from uint64, supply Supply) error {
	return NewFeeding(ctx, from, supply, Options{}).Run(conn)
}

// Run feeds the child over a first stripe and those that join it, until the child says
// that it is done, which is nil, or all of them broke, or the context is done.
func (f *Feeding) Run(conn *Conn) error {
	var tuning sync.WaitGroup
	tuning.Go(func() { f.tune(conn) })
	defer tuning.Wait()
	if err := f.run(conn); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// feed feeds over one stripe.
func (f *Feeding) feed(ctx context.Context, conn *Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What waits for the connection does not wait for longer than it takes to say why.
	defer context.AfterFunc(ctx, func() { conn.raw.SetWriteDeadline(time.Now().Add(heartbeat)) })()
	l := f.attach(conn)
	defer f.detach(l)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		cancel(f.listen(conn))
		conn.Close() // whoever is sending ends
	}()
	err := f.send(ctx, l)
	var bye *Bye
	if errors.As(err, &bye) {
		farewell(l, bye, listened)
	}
	conn.Close()
	<-listened
	// What the child said is nearer to the cause than what became of the link.
	if cause := context.Cause(ctx); bye == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

func (f *Feeding) attach(conn *Conn) *line {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &line{conn: conn, offset: f.next, told: 1}
	f.ready(l)
	f.lines = append(f.lines, l)
	return l
}

// detach has others send again what may be lost with a stripe.
func (f *Feeding) detach(l *line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = slices.DeleteFunc(f.lines, func(one *line) bool { return one == l })
	for _, run := range l.given.after(f.has) {
		f.again = f.again.add(run)
	}
	f.announce()
}

// announce has the stripes look for something to do.
func (f *Feeding) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// errDone says that a child has all that it wants.
var errDone = errors.New("done")

// farewell tells the child why the link ends, and gives it time to close: a connection
// that is closed with something unread in it takes back what was said.
func farewell(l *line, bye *Bye, closed <-chan struct{}) {
	l.conn.raw.SetWriteDeadline(time.Now().Add(heartbeat))
	if l.conn.Send(wire.AppendBye(nil, bye.Reason, bye.Text, l.offset, 0)) != nil {
		return // it finds the link closed
	}
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// task is what a stripe does next.
type task struct {
	Portion
	offset  uint64
	stripes int // that the child is to be told of; zero for nothing
	changed <-chan struct{}
}

// send sends what there is, and a sign of life when there is nothing.
func (f *Feeding) send(ctx context.Context, l *line) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		task, err := f.claim(l)
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

// relieve has a stripe that has had nothing to do for two beats send what was given to
// another before them, if the child waits for that: the other is slow, or stands still.
func (f *Feeding) relieve(l *line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := l.idle[0]
	l.idle = [2]uint64{l.idle[1], f.next}
	slow := f.awaited(old)
	if slow == nil || slow == l || len(f.again) > 0 || slices.Index(f.lines, l) >= f.choice.Stripes {
		return
	}
	for _, run := range slow.given {
		if run.from < old && run.to > slow.helped {
			f.again = f.again.add(span{max(run.from, slow.helped), run.to})
		}
	}
	slow.helped = old
	f.announce()
}

// awaited returns the stripe for whose bytes the child waits, of those before an offset.
func (f *Feeding) awaited(before uint64) (slow *line) {
	for _, l := range f.lines {
		if run, found := l.given.next(f.has); found && run.from < before {
			slow, before = l, run.from
		}
	}
	return slow
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

// claim gives a stripe its next piece: what was lost with another first.
func (f *Feeding) claim(l *line) (task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := task{changed: f.changed, offset: f.next}
	place := slices.Index(f.lines, l)
	if wanted := f.choice.Stripes; place == 0 && l.told != wanted && f.options.Open == nil {
		l.told, t.stripes = wanted, wanted
		return t, nil
	}
	if place >= f.choice.Stripes {
		return t, nil // it is not needed now
	}
	most := f.credit - min(f.credit, f.next)
	if f.again = f.again.after(f.has); len(f.again) > 0 {
		t.offset, most = f.again[0].from, f.again[0].to-f.again[0].from
	}
	portion, err := f.supply.Next(t.offset, min(f.piece(), most))
	t.Portion, f.version = portion, max(f.version, portion.TreeVersion)
	if err != nil || portion.Length == 0 {
		return t, err
	}
	given := span{t.offset, t.offset + portion.Length}
	l.given = l.given.add(given)
	f.again = f.again.after(given.to)
	f.next = max(f.next, given.to)
	return t, nil
}

// piece is how much a stripe gets at once.
func (f *Feeding) piece() uint64 {
	if len(f.lines) == 1 {
		return blockSize
	}
	return min(blockSize, f.choice.Piece)
}

// say sends a frame that is no data.
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

func (f *Feeding) grant(credit uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if credit > f.credit {
		f.credit = credit
		f.announce()
	}
}

// landed forgets what the child has.
func (f *Feeding) landed(upTo uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has = max(f.has, min(upTo, f.next))
	for _, l := range f.lines {
		l.given = l.given.after(f.has)
	}
}

// listen takes what the child says on a stripe until it is done or that breaks.
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
