package window

import (
	"slices"
	"time"
)

// drain has the queue run empty for a moment, now and then: a round trip that was learnt while a
// queue stood is too long, and a window that is made for it keeps the queue there for ever. When it is done
// next depends on what was learnt.
type drain struct {
	next    time.Time
	last    time.Time // when it ended last
	pause   time.Duration
	running bool
	shorter bool // a round trip has been learnt that is shorter than was known
	// possible is whether it could have been done in the last step.
	possible bool
}

const (
	// drainShare is the part of the windows that is left for the length of a step, and deepShare the part the first time, and
	// after something was learnt the last time.
	drainShare, deepShare = .75, .5
	// drainTarget is the part of its target that a client keeps all the same, if targets are met.
	drainTarget = .93
	// firstDrain is how long after the first queue it is done for the first time, and nextDrain how long after something was
	// learnt. If nothing was, it waits twice as long each time, up to lastDrain.
	firstDrain, nextDrain, lastDrain = time.Second, 4 * time.Second, 2 * time.Minute
)

// step returns the part of their windows that all clients have until the next step. standing is how long a queue has to be to count;
// missed is whether targets are missed.
func (d *drain) step(now time.Time, possible bool, standing time.Duration, missed bool, all []*history) float64 {
	d.possible = possible
	newcomers, queued := false, false
	for _, h := range all {
		d.shorter = d.shorter || h.shorter
		if h.long && !h.drained && h.tells() && (h.leaves == 0 || !h.isBehind()) {
			d.shorter, newcomers = true, true
		}
		queued = queued || h.tells() && !h.path.narrow && h.delay() > standing
	}
	// A client that came while a queue stood has learnt its round trip with the queue. Until it has learnt better, nobody can tell
	// whose queue that is.
	if newcomers && queued && !d.next.IsZero() {
		soon := now.Add(firstDrain)
		if again := d.last.Add(nextDrain); again.After(soon) {
			soon = again
		}
		if soon.Before(d.next) {
			d.next = soon
		}
	}
	switch {
	case d.running:
		d.pause = max(nextDrain, min(2*d.pause, lastDrain))
		if d.shorter {
			d.pause = nextDrain
		}
		d.running, d.last, d.next = false, now, now.Add(d.pause)
		if !missed || !slices.ContainsFunc(all, func(h *history) bool { return h.stillWaits(standing) }) {
			for _, h := range all {
				h.drained = h.drained || h.long && h.tells()
			}
		}
	case !possible:
	case d.next.IsZero():
		d.shorter, d.next = true, now.Add(firstDrain)
	case !now.Before(d.next):
		share := drainShare
		if d.shorter {
			share = deepShare
		}
		d.running, d.shorter = true, false
		for _, h := range all {
			h.stood = h.delay()
		}
		return share
	}
	return 1
}

// stillWaits reports whether a client sees the queue still about as long as before it was to run empty. That is so if others fill it,
// whatever room our windows leave: clients that have learnt their round trips with the queue see none then, and the others as much as
// before.
func (h *history) stillWaits(standing time.Duration) bool {
	return h.flows() && h.long && !h.path.narrow && h.delay() > max(standing, h.stood/2)
}
