package link

import (
	"errors"
	"slices"
)

// blockSize is the most that one frame carries.
const blockSize = 1 << 20

// line is one stripe of a link that feeds.
type line struct {
	conn   *Conn
	given  spans // what was given to it, and the child may lack
	told   int   // the number of stripes that it last told the child
	ended  bool  // it has told the child the end
	offset uint64
	idle   [2]uint64 // what was next when it had nothing to do, at the last two beats, the older first
	helped uint64    // what was given to it before this offset was given to others, too
}

// errTooMany ends a stripe beyond those that are asked for.
var errTooMany = &brokenError{errors.New("stripe is not wanted any more")}

func (f *Feeding) attach(conn *Conn) *line {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &line{conn: conn, offset: f.next, told: 1}
	f.ready(l)
	f.lines = append(f.lines, l)
	return l
}

// detach leaves it to other stripes to send again what may be lost with this one.
func (f *Feeding) detach(l *line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = slices.DeleteFunc(f.lines, func(one *line) bool { return one == l })
	for _, run := range l.given.after(f.has) {
		f.again = f.again.add(run)
	}
	f.announce()
}

// announce has the stripes look for something to do. It is called with f.mu held.
func (f *Feeding) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// task is what a stripe does next.
type task struct {
	Portion
	offset  uint64
	stripes int // the number to tell the child; zero for nothing
	changed <-chan struct{}
}

// claim gives a stripe its next piece, beginning with what was lost with another stripe.
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
		if f.options.Steered && len(l.given.after(f.has)) == 0 {
			return t, errTooMany
		}
		return t, nil // it is not needed now
	}
	most := f.credit - min(f.credit, f.next)
	if f.again = f.again.after(f.has); len(f.again) > 0 {
		t.offset, most = f.again[0].from, f.again[0].to-f.again[0].from
	}
	portion, err := f.supply.Next(t.offset, min(blockSize, f.choice.Piece, most))
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

// relieve is for a stripe that has had nothing to do for two beats. If the child waits for bytes
// that were given to another stripe before that, this other is slow or stands still, and its bytes
// are sent again.
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

// awaited returns the stripe whose bytes the child waits for, if they are before an offset. It is called with f.mu held.
func (f *Feeding) awaited(before uint64) (slow *line) {
	for _, l := range f.lines {
		if run, found := l.given.next(f.has); found && run.from < before {
			slow, before = l, run.from
		}
	}
	return slow
}

func (f *Feeding) grant(credit uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if credit > f.credit {
		f.credit = credit
		f.announce()
	}
}

// landed notes what the child has.
func (f *Feeding) landed(upTo uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has = max(f.has, min(upTo, f.next))
	for _, l := range f.lines {
		l.given = l.given.after(f.has)
	}
}
