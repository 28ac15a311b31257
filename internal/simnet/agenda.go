package simnet

import (
	"container/heap"
	"slices"
	"strings"
	"time"
)

// agenda is what the network will do, and when. It needs no goroutine: one timer is set for the first item.
type agenda struct {
	items    items
	sequence int
	timer    *time.Timer
	alarm    time.Time // for which the timer is set; zero if it is not
	settle   bool      // what programs did has yet to be looked at
}

type item struct {
	at       time.Time
	sequence int
	do       func()
}

type items []item

func (s items) Len() int      { return len(s) }
func (s items) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s items) Less(i, j int) bool {
	if s[i].at.Equal(s[j].at) {
		return s[i].sequence < s[j].sequence
	}
	return s[i].at.Before(s[j].at)
}
func (s *items) Push(x any) { *s = append(*s, x.(item)) }
func (s *items) Pop() any {
	last := (*s)[len(*s)-1]
	(*s)[len(*s)-1] = item{}
	*s = (*s)[:len(*s)-1]
	return last
}

// after makes do be called, with the lock held, when wait has passed.
func (n *Network) after(wait time.Duration, do func()) { n.at(time.Now().Add(wait), do) }

func (n *Network) at(when time.Time, do func()) {
	n.agenda.sequence++
	heap.Push(&n.agenda.items, item{when, n.agenda.sequence, do})
	n.arm()
}

// settleSoon makes the network look at what programs did once all of them wait. So whatever happens
// in one instant is handled in an order of the network's own, not in that of the scheduler.
func (n *Network) settleSoon() {
	n.agenda.settle = true
	n.arm()
}

// pause is how long after an instant the network acts on it. The clock of a bubble moves on only
// when all wait, but a timer for the present instant might fire before that.
const pause = time.Nanosecond

func (n *Network) arm() {
	var next time.Time
	switch {
	case n.agenda.settle:
		next = time.Now()
	case len(n.agenda.items) > 0:
		next = n.agenda.items[0].at
	default:
		return
	}
	next = next.Add(pause)
	if n.agenda.alarm.IsZero() || next.Before(n.agenda.alarm) {
		n.agenda.alarm = next
		n.agenda.timer.Reset(time.Until(next))
	}
}

// proceed does everything that is due.
func (n *Network) proceed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.settle()
	for len(n.agenda.items) > 0 && n.agenda.items[0].at.Before(now) {
		heap.Pop(&n.agenda.items).(item).do()
	}
	n.agenda.alarm = time.Time{}
	n.arm()
}

// settle starts what programs asked for since the last time.
func (n *Network) settle() {
	n.agenda.settle = false
	n.log.flush()
	dials := n.dials
	n.dials = nil
	slices.SortStableFunc(dials, func(a, b *dial) int {
		return strings.Compare(a.host.name+" "+a.address, b.host.name+" "+b.address)
	})
	for _, d := range dials {
		d.begin()
	}
	dirty := n.dirty
	n.dirty = nil
	slices.SortFunc(dirty, func(a, b *flow) int { return a.number - b.number })
	for _, f := range dirty {
		f.dirty = false
		f.advance()
	}
}
