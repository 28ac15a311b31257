package tree

import (
	"math"
	"slices"
	"time"
)

// Load is what a tree carries.
type Load struct {
	Bytes uint64 // how much in all; 0 if unknown
	Rate  uint64 // the most that the sender sends, in bytes per second; 0 for no limit
}

const (
	// defaultFanOut suits a load of which nothing is known.
	defaultFanOut = 3
	// mostFanOut is the most that suits any load: so many connections share an uplink well.
	mostFanOut = 16
	// hopTime is how far an agent is behind its parent on a near link: it
	// passes on what it has gathered for up to 5 ms.
	hopTime = 5 * time.Millisecond
)

// fanOut returns how many children an ordinary agent may have: the given limit, else what suits the
// load.
//
// An agent that feeds k others gives each of them a k-th of its uplink, so that L bytes take k L / U,
// and the last of n agents is log_k n hops behind the first. A large object goes along a
// chain, at the rate of one uplink; a small one over a flat tree. Where the sender is
// slower than the uplinks, several copies cost nothing.
func (b Bound) fanOut(agents int, uplink uint64) int {
	if b.FanOut > 0 {
		return b.FanOut
	}
	if b.Load.Bytes == 0 {
		if b.Load.Rate == 0 {
			return defaultFanOut
		}
		return int(min(max(uplink/b.Load.Rate, 1), mostFanOut))
	}
	best, shortest := 1, time.Duration(math.MaxInt64)
	for k := 1; k <= mostFanOut; k++ {
		if expected := b.Load.time(k, agents, uplink); expected < shortest {
			best, shortest = k, expected
		}
	}
	return best
}

// time returns how long the load takes until the last of so many agents has it.
func (l Load) time(fanOut, agents int, uplink uint64) time.Duration {
	seconds := float64(l.Bytes) * float64(fanOut) / float64(uplink)
	if l.Rate > 0 {
		seconds = max(seconds, float64(l.Bytes)/float64(l.Rate))
	}
	return time.Duration(seconds*float64(time.Second)) + time.Duration(levels(fanOut, agents))*hopTime
}

// Spread returns how many agents of a cluster are to feed its members that have no agent beside them: at least least, at most most,
// each with this uplink. It is the smallest number with which the last member is done soonest: each further agent needs a copy of its
// own from another agent, but takes members off the others. For a load of which nothing is known, no agent is to feed more than suits
// that.
func (l Load) Spread(members, least, most int, uplink uint64) int {
	best := max(least, 1)
	for agents := best + 1; agents <= most; agents++ {
		if l.among(members, agents, uplink) < l.among(members, best, uplink) {
			best = agents
		}
	}
	return best
}

// among returns how long the load takes to the last of so many members that share some agents, where each agent also
// feeds the next one.
func (l Load) among(members, agents int, uplink uint64) time.Duration {
	copies := (members + agents - 1 + agents - 1) / agents
	if l.Bytes > 0 {
		return l.time(copies, 1, uplink) + time.Duration(agents-1)*hopTime
	}
	return time.Duration(max(copies, Bound{Load: l}.fanOut(agents, uplink)))
}

// levels returns how many levels below its root a tree of so many nodes has.
func levels(fanOut, nodes int) int {
	deep := 0
	for wide, held := fanOut, 1; held < nodes; wide *= fanOut {
		held += wide
		deep++
	}
	return deep
}

// allowed returns how many children the agent at a place may have if an ordinary agent may have so many.
// Each child gets as much as an ordinary agent's child does; at least one child is allowed.
func (t *Tree) allowed(at, ordinary int) int {
	if t.bound.FanOut > 0 {
		return ordinary
	}
	suits := float64(ordinary) * float64(t.at(at).node.Capacity()) / float64(t.ordinary)
	return int(min(max(suits, 1), float64(max(mostFanOut, ordinary))))
}

// suits returns how many children the agent at a place may have.
func (t *Tree) suits(at int) int { return t.allowed(at, t.fanOut) }

// excess returns by how many an agent would exceed what suits it if it fed one more.
func (t *Tree) excess(at int) int { return max(0, t.at(at).links+1-t.suits(at)) }

// relays returns how many agents there are, and the median of their uplinks.
func relays(nodes []Node) (agents int, uplink uint64) {
	var uplinks []uint64
	for _, node := range nodes {
		if node.Kind == Agent {
			uplinks = append(uplinks, node.Capacity())
		}
	}
	if len(uplinks) == 0 {
		return 0, assumedUplink
	}
	slices.Sort(uplinks)
	return len(uplinks), uplinks[len(uplinks)/2]
}
