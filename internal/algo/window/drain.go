package window

import (
	"slices"
	"time"
)

// drain has the queue run empty for a moment, now and then: a round trip that was learnt while a
// queue stood is too long, and whoever believes it keeps the queue for ever. What is learnt
// says when to do it next.
type drain struct {
	next    time.Time
	last    time.Time // when it ended last
	pause   time.Duration
	running bool
	shorter bool // a round trip has been learnt that is shorter than was known
	// possible is whether it could be done in the last step.
	possible bool
}

const (
	// drainShare is what of the windows is left for the length of a step, and deepShare where
	// nothing was learnt yet, or something the last time.
	drainShare, deepShare = .75, .5
	// drainTarget is what of its target a client is left all the same, where targets are met.
	drainTarget = .93
	// firstDrain is how long after the first queue it is done first, and nextDrain how long
	// after something was learnt. Where nothing was, it takes twice as long, up to lastDrain.
	firstDrain, nextDrain, lastDrain = time.Second, 4 * time.Second, 2 * time.Minute
)

// step returns what of their windows all are to have until the next. Standing is how long a queue is; missed is whether
// targets are.
func (d *drain) step(now time.Time, possible bool, standing time.Duration, missed bool, all []*history) float64 {
	d.possible = possible
	newcomers, queued := false, false
	for _, h := range all {
		d.shorter = d.shorter || h.shorter
		if h.long && !h.drained && h.flows() {
			d.shorter, newcomers = true, true
		}
		queued = queued || h.flows() && !h.path.narrow && h.delay() > standing
	}
	// Who came while a queue stood has learnt its round trip with that, and until it is known better, whose queue it is is not.
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
				h.drained = h.drained || h.long && h.flows()
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

// stillWaits reports whether a client sees the queue about as long as before it was to run empty. So it is where others fill it,
// whatever we leave: then those who have learnt their round trips with it see none, and the others as much as before.
func (h *history) stillWaits(standing time.Duration) bool {
	return h.flows() && h.long && !h.path.narrow && h.delay() > max(standing, h.stood/2)
}
