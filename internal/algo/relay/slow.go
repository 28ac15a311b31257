package relay

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// brakeTime is how long a child must have held up others to lose its place in the cache. Where bytes
	// come fast, a few milliseconds fill a cache, and a child that is so little behind need not be slow.
	// That is so for a child that is nearly as fast as the others, too, where they take long for what the cache has room for: it may
	// take half as long as they did. All that it lacks comes again for a child that loses its place.
	brakeTime = 250 * time.Millisecond
	// longBrake takes its place where the cache has room and only the mode keeps the others from getting further ahead, and
	// where the others had been there before. It is longer than any path, so that a child that is far is not taken for slow.
	longBrake = 5 * time.Second
)

// ParkSlowest is for when the cache is full of bytes that only some children lack. It returns those that now have to wait until the others
// are done: with Detach those that are slow, otherwise those that nobody waits for without end. While all are equally slow it
// returns none: then the cache is too small, not a child too slow.
func (a *Account) ParkSlowest(now time.Time) (parked []string) { return a.park(now, brakeTime) }

// ParkBrakes is ParkSlowest for a cache that has room, where only the mode, or the bound on what is cached of a stream, lets no more come.
func (a *Account) ParkBrakes(now time.Time) (parked []string) { return a.park(now, longBrake) }

func (a *Account) park(now time.Time, brake time.Duration) (parked []string) {
	if !a.Stalled() {
		return nil
	}
	floor := a.floor()
	if floor >= a.arrived {
		a.releaseBrakes()
		return nil
	}
	half := floor + (a.arrived-floor)/2
	behind, ahead, beyond := a.spread(half, now)
	if !ahead && !beyond {
		return nil
	}
	if now.Sub(a.full) >= longBrake {
		a.releaseBrakes()
	}
	wasRoom := now.Sub(a.full) >= brakeTime/2
	a.full = now
	for _, name := range behind {
		c := a.children[name]
		if !a.mayPark(c) {
			continue
		}
		moved := c.acked - c.brake.acked
		getsOn, brake := wasRoom && moved >= half-floor, brake
		if a.rules.Slow != Detach {
			brake = longBrake
		}
		if !ahead { // what the others lack has yet to come: this child may take its time, as long as it takes something
			brake, getsOn = longBrake, moved >= leastTaken
		}
		if c.brake.at.IsZero() || getsOn {
			c.brake = mark{a.arrived, c.acked, now} // it holds up others from now on
		}
		// One that has just come again, however long its links have held up others, may have something under way.
		if waited, linked := now.Sub(c.brake.at), now.Sub(c.linked); waited >= max(brake, a.taken(c.brake.at)/2) && linked >= brakeTime {
			c.stood = c.stood || c.lost || min(waited, linked) >= longBrake && moved < leastTaken
			c.parked, c.lost, c.brake = true, true, mark{}
			parked = append(parked, name)
		}
	}
	return parked
}

// mayPark reports whether a child may lose its place in the cache. With Evict, and with Pace down to a floor rate, nobody is waited for
// without end, either. But one that has not asked for anything yet is not given up: it may have everything, and be comparing that, or its
// disk hangs. It is served when the others are done.
func (a *Account) mayPark(c *child) bool {
	return a.rules.Slow == Detach || !c.came && (a.rules.Slow == Evict || a.rules.FloorRate > 0)
}

// taken returns for how long, at a time, the children had been at what there was room for; zero is not known.
func (a *Account) taken(at time.Time) time.Duration {
	if a.promised.at.IsZero() {
		return 0
	}
	return at.Sub(a.promised.at)
}

// spread returns which children are behind, and whether others wait for them. A child is ahead if it lacks less than half of what
// the slowest lacks. A child beyond what has arrived waits for what follows that, unless it has everything; how long a stream is
// nobody may know. A child for which the cache has nothing cannot take anything, and is none of these. One that hangs, or whose
// link has ended, is held up by nobody.
func (a *Account) spread(half uint64, now time.Time) (behind []string, ahead, beyond bool) {
	for name, c := range a.children {
		switch {
		case c.parked, c.attached && c.acked < a.discarded:
		case c.acked > half:
			c.brake = mark{}
			waits := c.attached && !a.stands(c, now)
			ahead = ahead || waits && (c.acked <= a.arrived || c.acked < a.length)
			beyond = beyond || waits && a.rules.Stream && a.length == 0
		default:
			behind = append(behind, name)
		}
	}
	slices.Sort(behind)
	return behind, ahead, beyond
}

// releaseBrakes notes that nobody holds up others: all have everything, and somebody always is the last to have it.
func (a *Account) releaseBrakes() {
	for _, c := range a.children {
		c.brake = mark{}
	}
}

// Slow returns the children that are to be given up by the rule for slow ones. It includes those whose link has ended, as
// that of a child that hangs does after a moment. The owner calls it now and then.
func (a *Account) Slow(now time.Time) (evicted []string) {
	if a.came.at.IsZero() || a.came.offset != a.arrived {
		a.came = mark{offset: a.arrived, at: now}
	}
	if a.promised.at.IsZero() || a.promised.offset != a.credit || a.floor() >= a.arrived {
		a.promised = mark{offset: a.credit, at: now}
	}
	for _, name := range slices.Sorted(maps.Keys(a.children)) {
		c := a.children[name]
		if c.parked || !c.came || a.rules.Asked && !a.isAsking(c) {
			continue
		}
		if a.tooSlow(c, now) {
			evicted = append(evicted, name)
		}
	}
	return evicted
}

// lag returns how much has arrived that a child does not have.
func (a *Account) lag(c *child) uint64 { return a.arrived - min(c.acked, a.arrived) }

// has returns up to where a child has taken what it was sent. End to end, an agent acknowledges what its own children have: where one of
// those hangs, all agents above it stop acknowledging at once, and none of them is slow.
func (a *Account) has(c *child) uint64 {
	if c.relays && a.rules.Mode == EndToEnd {
		return max(c.acked, c.sent, c.had)
	}
	return c.acked
}

// lacks returns how much has arrived that a child has not taken.
func (a *Account) lacks(c *child) uint64 { return a.arrived - min(a.has(c), a.arrived) }

// paceTime is how long a child must be below the floor rate to be given up.
const paceTime = 5 * time.Second

// beginAgain forgets how far behind a child was, and since when: it had to wait, or everything comes again. What it lacks when it
// goes on counts as if it had just come.
func (c *child) beginAgain() {
	c.mark, c.still, c.brake, c.abreast, c.leastLag = mark{}, mark{}, mark{}, false, math.MaxUint64 // whether it stood, only it can change
}

// relayTime is how much longer an agent may be behind than a member: what holds it up may be a child of its own, which it is about to
// give up.
const relayTime = 2 * time.Second

// leeway is how much longer than a member a child may be behind.
func (c *child) leeway() time.Duration {
	if c.relays {
		return relayTime
	}
	return 0
}

func (a *Account) tooSlow(c *child, now time.Time) bool {
	has, lacks, stands := a.has(c), a.lacks(c), a.stands(c, now)
	c.leastLag = min(c.leastLag, lacks)
	if c.mark.at.IsZero() {
		c.mark = mark{a.arrived, has, now}
		return false
	}
	if has >= c.mark.offset {
		c.abreast, c.mark = true, mark{a.arrived, has, now}
		return false
	}
	behind := now.Sub(c.mark.at) - c.leeway()
	switch a.rules.Slow {
	case Evict:
		late := a.rules.LagTime > 0 && behind > a.rules.LagTime
		if late && !c.abreast && has > c.mark.acked && has-c.mark.acked >= a.arrived-min(c.mark.offset, a.arrived) {
			c.mark, late = mark{a.arrived, has, now}, false // it came late, and is catching up
		}
		return late || a.rules.LagBytes > 0 && (lacks > c.leastLag+a.rules.LagBytes || stands && a.wouldLag(c, now))
	case Pace:
		if a.rules.FloorRate == 0 || behind < paceTime {
			return false
		}
		slow := float64(has-c.mark.acked) < float64(a.rules.FloorRate)*(behind+c.leeway()).Seconds()
		c.mark = mark{max(a.arrived, has), has, now}
		return slow
	}
	return false
}

// patientBrake is how long a member must have taken nothing, and nothing have come, where the mode may have an agent above this one wait for
// it: here nothing tells that from a sender that pauses.
const patientBrake = 3 * longBrake

// wouldLag reports whether a member that takes nothing would fall behind without end if more could come: there is no room for as much as it
// may lag behind, or the mode lets no more be under way, and the others wait for it. For an agent that takes nothing, whoever feeds its children
// answers.
func (a *Account) wouldLag(c *child, now time.Time) bool {
	switch {
	case c.relays:
		return false
	case a.Stalled():
		return true
	}
	return a.rules.Mode == EndToEnd && !a.ended && min(now.Sub(c.still.at), now.Sub(a.came.at)) >= patientBrake
}

// Pardon begins anew what is held against children: the agent itself stood still, and they may have waited for it.
func (a *Account) Pardon() {
	a.came, a.promised = mark{}, mark{}
	for _, c := range a.children {
		c.beginAgain()
	}
}
