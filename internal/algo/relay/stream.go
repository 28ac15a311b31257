package relay

import (
	"math"
	"time"
)

// A stream may never end, and its sender keeps only what some receiver lacks, up to a limit. So children that wait for
// the others cannot wait for the end: the sender may be waiting for them. And what the sender no longer has is nowhere
// but in caches: a delivery cannot begin again before that.

const (
	// lullTime is how long all children that do not wait must have what there is of a stream before the waiting ones go on.
	lullTime = 2 * time.Second
	// lullMost is how many bytes may come in a lull, and be under way to a child: some logs are added to all the time.
	lullMost = 256 << 10
)

// Resume is Unpark for streams. The children that are here and wait go on when each of the others that are here has had what there is for a
// while, or takes none of it: a slow child, or one that came again, goes on while the source pauses or waits for it. The owner calls Resume
// now and then. If the cache no longer holds what the waiting children need, Resume returns the offset from which the delivery has to begin
// again, and the owner calls Restart.
func (a *Account) Resume(now time.Time) (from uint64, needed bool) {
	from, under := a.waiters(now)
	if !a.rules.Stream || from == math.MaxUint64 || under > lullMost {
		a.lull = mark{}
		return 0, false
	}
	if under == 0 {
		a.lull.offset = a.arrived
	}
	if a.lull.at.IsZero() || a.arrived > a.lull.offset+lullMost {
		a.lull = mark{offset: a.arrived, at: now}
	}
	if now.Sub(a.lull.at) < lullTime {
		return 0, false
	}
	a.lull = mark{}
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

// waiters looks at the children that are here; the others say where they are when they come. It returns the lowest offset of
// those that wait, and the most that is under way to another that takes what there is.
func (a *Account) waiters(now time.Time) (from, under uint64) {
	from = math.MaxUint64
	for _, c := range a.children {
		switch {
		case !c.attached:
		case c.parked:
			from = min(from, c.acked)
		case !a.stands(c, now):
			under = max(under, a.lag(c))
		}
	}
	return from, under
}

// stands reports whether a child has taken nothing of what it lacks for longer than any path takes: its reader may pause, and for
// ever. It keeps its place until it holds up others, but children that wait need not wait for it.
func (a *Account) stands(c *child, now time.Time) bool {
	if c.still.at.IsZero() || c.acked != c.still.acked || a.lag(c) == 0 {
		c.still = mark{a.arrived, c.acked, now}
	}
	return now.Sub(c.still.at) >= longBrake
}

// Forgo notes that nobody has the bytes before an offset any more, so that no child waits for them. It returns the offset from
// which the children that are here need the rest.
func (a *Account) Forgo(before uint64) (from uint64) {
	for _, c := range a.children {
		c.acked, c.sent = max(c.acked, before), max(c.sent, before)
	}
	return a.Here(before)
}

// Lacks looks at the children that are here, do not wait, and lack bytes that the cache no longer has. It returns their
// lowest offset, and whether there are any.
func (a *Account) Lacks() (from uint64, some bool) {
	from = math.MaxUint64
	for _, c := range a.children {
		if c.attached && !c.parked && c.acked < a.discarded {
			from = min(from, c.acked)
		}
	}
	return from, from < math.MaxUint64
}

// Exclude notes that the children that need bytes before an offset, which the cache does not have, get nothing more:
// nobody waits for them.
func (a *Account) Exclude(before uint64) {
	for _, c := range a.children {
		if c.acked < min(before, a.discarded) {
			c.acked, c.sent = a.discarded, max(c.sent, a.discarded)
		}
	}
}

// Here returns the lowest offset of the children that are here and do not wait; without any, it returns otherwise.
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
