package relay

import (
	"math"
	"time"
)

// A stream may never end, and its sender keeps only what some member lacks, and not more than it has room for. So a child that
// waits for the others cannot wait for the end: the sender may be waiting for that child. And what the sender has discarded can be
// had from a cache only: the delivery cannot begin again from there.

const (
	// lullTime is how long all children that do not wait must have what there is of a stream before the waiting ones go on.
	lullTime = 2 * time.Second
	// lullMost is how much may come during a lull, or be under way to a child: to some logs something is added all the time.
	lullMost = 256 << 10
)

// Resume has the attached children of a stream that wait go on when every other attached child has had what there is for a
// while, or hangs: the source pauses then, or waits for the children that wait. It returns from where the delivery has to begin
// again for them if the cache no longer holds what they need: the owner then calls Restart. The owner calls it now and then.
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
		if c.parked && c.attached && c.acked >= a.discarded {
			c.parked = false
			c.beginAgain()
		}
	}
	return from, false
}

// waiters returns the lowest offset of the children that are attached, wait, and do not hang; and the most that is under way to
// another that is attached and takes what there is. A child that is not attached says where it is when it comes.
func (a *Account) waiters(now time.Time) (from, under uint64) {
	from = math.MaxUint64
	for _, c := range a.children {
		switch {
		case !c.attached:
		case c.parked && c.stood:
		case c.parked:
			from = min(from, c.acked)
		case !a.stands(c, now):
			under = max(under, a.under(c))
		}
	}
	return from, under
}

// under returns how much is under way to a child. A child beyond what has arrived since the delivery began again waits for what
// it has to come first: there is no lull before that. If this agent never had as much as the child says that it has, that may be wrong:
// then it keeps a lull away only while much comes.
func (a *Account) under(c *child) uint64 {
	switch {
	case c.acked <= a.arrived:
		return a.lag(c)
	case c.acked <= a.reached:
		return math.MaxUint64
	}
	return 1
}

// leastTaken is how many bytes a child takes within longBrake, unless it takes as good as nothing. A neighbour that sends as little counts
// as silent.
const leastTaken = 640

// stands reports whether a child has taken nothing of what it lacks for longer than any path is, or only drops of it: it hangs, or its
// reader pauses, maybe for ever. It keeps its place until it holds up others, but children that wait need not wait for it.
func (a *Account) stands(c *child, now time.Time) bool {
	if c.stood || !c.attached {
		return c.stood
	}
	if c.still.at.IsZero() || c.acked-c.still.acked >= leastTaken || a.lag(c) == 0 {
		c.still = mark{a.arrived, c.acked, now}
	}
	c.stood = now.Sub(c.still.at) >= longBrake
	return c.stood
}

// Forgo notes that what comes before an offset can be had nowhere any more, so that nobody waits for it. It returns from where
// the attached children need the rest.
func (a *Account) Forgo(before uint64) (from uint64) {
	for _, c := range a.children {
		c.acked, c.sent, c.passed = max(c.acked, before), max(c.sent, before), max(c.passed, before)
	}
	return a.Here(before)
}

// Lacks returns the lowest offset of the attached children that do not wait and need what the cache no longer has; and whether
// there are any.
func (a *Account) Lacks() (from uint64, some bool) {
	from = math.MaxUint64
	for _, c := range a.children {
		if c.attached && !c.parked && c.acked < a.discarded {
			from = min(from, c.acked)
		}
	}
	return from, from < math.MaxUint64
}

// Exclude notes that children that need what comes before an offset, and that the cache does not have, get no more: nobody waits
// for them.
func (a *Account) Exclude(before uint64) {
	for _, c := range a.children {
		if c.acked < min(before, a.discarded) {
			c.acked, c.sent, c.passed = a.discarded, max(c.sent, a.discarded), max(c.passed, a.discarded)
		}
	}
}

// Passed notes that all members below a child that is an agent have all before an offset. That may go back: a member may have come from
// another agent.
func (a *Account) Passed(name string, upTo uint64) {
	if c := a.children[name]; c != nil {
		c.passed = min(upTo, c.sent)
	}
}

// Below returns the offset before which all members below this agent have all, also those that wait for others; hop by hop, as far as the agents
// among the children say so. A child that has not come may have nothing.
func (a *Account) Below() (upTo uint64) {
	upTo = a.arrived
	for _, c := range a.children {
		has := c.acked
		if c.relays && a.rules.Mode == Hop {
			has = min(has, c.passed)
		}
		upTo = min(upTo, has)
	}
	return upTo
}

// Here returns the lowest offset of the attached children that do not wait; if there are none, otherwise.
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
