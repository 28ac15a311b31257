package relay

import "math"

// With Rules.Asked each child has parts of the object already, says so by asking from where the next begins that it lacks, and asks for
// no more than up to the next that it has. While a child finds out what it has, it asks for nothing.

// Asks notes that a child may be sent all before an offset.
func (a *Account) Asks(name string, upTo uint64) {
	if c := a.children[name]; c != nil {
		c.asked = max(c.asked, upTo)
	}
}

// WaitForAll says whether children that are not attached are waited for, which may be about to ask for something from further back than
// the others.
func (a *Account) WaitForAll(wait bool) { a.alone = !wait }

// Idle reports whether no child asks for anything that has not come.
func (a *Account) Idle() bool { return a.rules.Asked && !a.ended && a.asked() <= a.arrived }

// asked returns the offset before which some child asks for all that follows what has arrived. What a child asks for that is further on
// counts only when nobody can still ask for what comes before that.
func (a *Account) asked() (upTo uint64) {
	from := a.arrived
	if front := a.front(); a.awaitsNobody() && front < math.MaxUint64 {
		from = max(from, front)
	}
	for _, c := range a.children {
		if c.attached && !c.parked && c.acked <= from {
			upTo = max(upTo, c.asked)
		}
	}
	return upTo
}

// awaitsNobody reports whether all children have come that are waited for.
func (a *Account) awaitsNobody() bool { return a.alone && a.Attached() || a.Gathered() }

// front returns the lowest offset of the children that have come; the highest number if none has. With Asked, those that wait for
// the others do not count: the others may have to leave something out to be done.
func (a *Account) front() (least uint64) {
	least = math.MaxUint64
	for _, c := range a.children {
		if c.attached && (!c.parked || !a.rules.Asked) {
			least = min(least, c.acked)
		}
	}
	return least
}
