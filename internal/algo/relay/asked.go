package relay

import "math"

// With Rules.Asked each child has parts of the object already: it asks from where the next begins that it lacks, for no more than up to
// the next that it has. Until it knows what it has, it asks for nothing, and while it takes over what it has, it may be away.
//
// What comes once is for all children. So nothing comes while one that asks for nothing may still want it, as long as that is waited for:
// the others go on without it then, and it waits for them when it comes, like any child that needs what the cache no longer has.

const (
	// quietLooks is at how many looks in a row a child may ask for nothing. To come back, and ask from elsewhere, takes it about three round trips.
	quietLooks = 4
	// quietTimes is how many times as long as the quickest a child may take to find out what it has, or to come back.
	quietTimes = 2
)

// Asks notes that a child may be sent all before an offset.
func (a *Account) Asks(name string, upTo uint64) {
	c := a.children[name]
	if c == nil {
		return
	}
	c.asked = max(c.asked, upTo)
	if !a.isAsking(c) {
		return
	}
	if c.quiet > 0 {
		if a.quickest == 0 && c.acked > 0 { // who has nothing yet has not compared: it comes late
			a.quickest = c.quiet
		}
		if c.began && c.patience == 0 {
			a.cameBack(c)
		}
		c.quiet, c.parked = 0, c.parked || c.acked < a.discarded
		c.beginAgain() // it is not slow for what came meanwhile
	}
	c.began, c.patience = true, 0
}

// cameBack notes that a child asks again, the first of those that did not. The others, or their children, may be about to take over as
// much as it did.
func (a *Account) cameBack(c *child) {
	for _, other := range a.children {
		if other.began && !a.isAsking(other) {
			other.patience = max(other.patience, quietTimes*c.quiet)
		}
	}
}

// Look notes which children ask for nothing. The owner calls it at regular times.
func (a *Account) Look() {
	for _, c := range a.children {
		if c.quiet++; a.isAsking(c) {
			c.quiet = 0
		}
	}
}

// isAsking reports whether a child waits for what it has asked for, be it the end alone.
func (a *Account) isAsking(c *child) bool {
	return c.attached && (c.asked > c.acked || c.acked >= a.whole)
}

// isAwaited reports whether the others wait until a child that asks for nothing does.
func (a *Account) isAwaited(c *child) bool {
	more := c.patience
	if c.attached {
		more = max(more, quietTimes*a.quickest)
	}
	return c.quiet < quietLooks+more
}

// isPassedOver reports whether a child has asked for nothing for so long that nobody reckons with it.
func (a *Account) isPassedOver(c *child) bool {
	return a.rules.Asked && !a.isAsking(c) && !a.isAwaited(c)
}

// Idle reports whether no child asks for anything that has not come.
func (a *Account) Idle() bool { return a.rules.Asked && !a.ended && a.asked() <= a.arrived }

// asked returns the offset before which some child asks for all that follows what has arrived. What a child asks for that is further on
// counts only when nobody who is awaited can still ask for what comes before that.
func (a *Account) asked() (upTo uint64) {
	from := a.arrived
	if front, some := a.front(); some {
		from = max(from, front)
	}
	for _, c := range a.children {
		if a.isAsking(c) && !c.parked && c.acked <= from {
			upTo = max(upTo, c.asked)
		}
	}
	return upTo
}

// front returns the lowest offset from which a child asks for something. There is none while a child is awaited that may ask from
// further back. Children that wait for the others do not count: the others may have to leave something out to be done.
func (a *Account) front() (least uint64, some bool) {
	least = math.MaxUint64
	for _, c := range a.children {
		switch {
		case c.parked:
		case a.isAsking(c):
			least = min(least, c.acked)
		case a.isAwaited(c):
			return 0, false
		}
	}
	return least, least < math.MaxUint64
}
