package relay

import (
	"math"
	"time"
)

// A stream may never end, and its sender keeps only what somebody lacks, and not more than it has room for. So who waits
// for the others cannot wait for the end: the sender may wait for it. And what the sender has no more can be had nowhere
// but from a cache: nothing begins again from there.

// lullTime is how long all that do not wait must have what there is of a stream before those that wait go on.
const lullTime = 2 * time.Second

// Resume has the children of a stream that are here and wait go on when all others that are here have had what there is
// for a while: as one that is slow, or came again, while the source pauses, or waits for it. It returns from where the delivery has to begin
// again for them if the cache no longer holds what they need: the owner then calls Restart. It is asked now and then.
func (a *Account) Resume(now time.Time) (from uint64, needed bool) {
	from, idle := a.waiters()
	if !a.rules.Stream || a.ended || !idle {
		a.lull = time.Time{}
		return 0, false
	}
	if a.lull.IsZero() {
		a.lull = now
	}
	if now.Sub(a.lull) < lullTime {
		return 0, false
	}
	a.lull = time.Time{}
	if from < a.discarded {
		return from, true
	}
	for _, c := range a.children {
		if c.parked && c.attached {
			c.parked = false
			c.beginAgain()
		}
	}
	return from, false
}

// waiters returns the least that those have that are here and wait, and whether there are any while all others that are
// here have what there is. Who is not here says where it is when it comes.
func (a *Account) waiters() (from uint64, idle bool) {
	from = math.MaxUint64
	for _, c := range a.children {
		switch {
		case !c.attached:
		case c.parked:
			from = min(from, c.acked)
		case c.acked < a.arrived:
			return 0, false
		}
	}
	return from, from < math.MaxUint64
}

// Forgo notes that what comes before an offset can be had nowhere any more, so that nobody waits for it. It returns from where
// those that are here need the rest.
func (a *Account) Forgo(before uint64) (from uint64) {
	for _, c := range a.children {
		c.acked, c.sent = max(c.acked, before), max(c.sent, before)
	}
	return a.Here(before)
}

// Here returns the least that those have that are here and do not wait; if there are none, what is given.
func (a *Account) Here(otherwise uint64) (least uint64) {
	least = math.MaxUint64
	for _, c := range a.children {
		if c.attached && !c.parked {
			least = min(least, c.acked)
		}
	}
	if least == math.MaxUint64 {
		return otherwise
	}
	return least
}
