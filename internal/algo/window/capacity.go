package window

import (
	"slices"
	"time"
)

// summary is what was seen of all clients together.
type summary struct {
	delivered Rate // by all
	planned   Rate // what the last plan meant to be used
	full      Rate // the part of planned meant for clients that used all they were granted, up to the access link
	filled    Rate // the part of delivered that came from them
	// free is the part of planned meant for clients whose segments wait nowhere, freeFull the part of that for those that used all
	// they were granted.
	free, freeFull Rate
	targets        Rate // as far as clients can use theirs
	// queue is how long segments wait before the access link: the lower quartile of how much
	// longer round trips are than their shortest. "When the RTT of most of TCP
	// connections increase, we can consider that these connections are affected by the
	// congestion occurring at the identical link" (001 §3.3).
	queue time.Duration
	// deepest is the upper quartile of the same, of clients that are not known to have a queue on their own path. If it is
	// much more than queue, some have learnt their round trips while a queue stood.
	deepest time.Duration
	// drained is whether enough have been seen without a queue: only their queues count then.
	drained bool
	certain bool // all have, and nobody has a target: with targets, bandwidth beyond them is not worth a queue
	open    bool // certain, and no queue has stood before the access link for long: whoever waits does so elsewhere
	mss     int
	drain   float64 // the part of the windows that is left while the queue is to run empty
	initial int     // connections that may turn out to be short
	later   int     // the other ones
	first   int     // the window of the initial ones
	// served is which share of their parts those clients get that use all they may.
	served  float64
	crowded bool // others fill the queue
	// disturbed is whether most clients have lost something of late.
	disturbed bool
	limit     Rate
	trip      time.Duration // without a queue: the lower quartile
	most      Rate          // what was delivered at most, without a queue
	weight    Rate          // of clients without a target: the smallest target of others
}

func summarize(all []*history) summary {
	s := summary{mss: usualMSS}
	disturbed := 0
	trips := make([]time.Duration, 0, len(all))
	queues, shared := make([]time.Duration, 0, len(all)), make([]time.Duration, 0, len(all))
	long := slices.ContainsFunc(all, func(h *history) bool { return h.long && h.flows() })
	anybody := slices.ContainsFunc(all, (*history).flows)
	s.drained = enoughDrained(all)
	s.certain = !slices.ContainsFunc(all, func(h *history) bool { return h.flows() && !h.drained || h.client.Target > 0 })
	for _, h := range all {
		s.delivered += h.client.Throughput
		s.planned += h.counted
		// While there are longer transfers, what a short one has learnt says little: its round trip may never have been
		// without a queue.
		counts := h.long || !long
		if counts && h.leaves == 0 && !h.isBehind() && !h.path.narrow {
			s.full += h.counted
			s.filled += h.client.Throughput
		}
		if counts && h.flows() && !h.path.narrow && !h.isHeldUp() {
			s.free += h.counted
			if h.leaves == 0 {
				s.freeFull += h.counted
			}
		}
		if h.client.Active {
			s.targets += min(h.client.Target, h.use)
		}
		if target := h.client.Target; target > 0 && (s.weight == 0 || target < s.weight) {
			s.weight = target
		}
		if counts && (h.flows() || !anybody && h.tells()) && (h.drained || h.aside || !s.drained) {
			queues = append(queues, h.delay())
			if !h.path.narrow {
				shared = append(shared, h.delay())
			}
		}
		if h.sends() {
			trips = append(trips, h.trip())
		}
		s.initial += h.initial
		s.later += len(h.client.Connections) - h.initial
		if h.isDisturbed() {
			disturbed++
		}
	}
	s.disturbed = 2*disturbed > len(all)
	s.served = 1
	if s.full > 0 && s.filled > 0 {
		s.served = float64(s.filled / s.full)
	}
	s.queue, s.deepest, s.trip = quartile(1, queues), quartile(3, shared), quartile(1, trips)
	return s
}

// leastDelay returns how long segments of all wait at least, as far as is known: of those that have been seen without a queue, if any are.
func leastDelay(all []*history) time.Duration {
	drained := slices.ContainsFunc(all, func(h *history) bool { return h.drained && h.sends() })
	least := unknown
	for _, h := range all {
		if h.sends() && (h.drained || !drained) {
			least = min(least, h.delay())
		}
	}
	return least
}

// quartile returns the first or third quartile of times, which it sorts; of none, 0.
func quartile(number int, times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[(len(times)-1)*number/4]
}

// enoughDrained reports whether clients that have been seen without a queue can speak for all. Those with a queue on their own path
// cannot speak for those without.
func enoughDrained(all []*history) bool {
	wide := slices.ContainsFunc(all, func(h *history) bool { return h.flows() && !h.path.narrow })
	flowing, drained := 0, 0
	for _, h := range all {
		if h.tells() && (!wide || !h.path.narrow) {
			flowing++
			if h.drained {
				drained++
			}
		}
	}
	return drained > 0 && drainedShare*drained >= flowing
}

// capacity estimates what the access link gives to the clients. While a queue stands, that is
// what comes. While none stands and what was planned is used, there may be more, and the plan
// grows: a little at first, then faster with every step without a queue, so that bandwidth
// that comes back is found in a few steps.
type capacity struct {
	rate   Rate
	growth float64
	grown  int // for how many steps it has not been larger
	// known is what came when a queue last stood.
	known Rate
}

const (
	// margin is how many times what comes is planned while a queue stands: a few percent too much make a short queue, a few
	// too little leave the link idle.
	margin = 1
	// leastGrowth and mostGrowth bound how much more is planned per step.
	leastGrowth, mostGrowth = .04, .5
	// mostAhead is how many times what comes is planned at most, and blindAhead the same as long as no queue has stood: nothing
	// is known of the link then, as in TCP's slow start.
	mostAhead, blindAhead = 1.6, 2.5
	// usedEnough is the share of a plan that must be used before there is a larger one.
	usedEnough = .94
	// openSteps is how many steps without a queue it takes until what came with one says nothing any more.
	openSteps = 6
	// drainedShare says how many must have been seen without a queue: one of so many.
	drainedShare = 4
	// leastQueue is the shortest queue: anything less is noise of round trips.
	leastQueue = 5 * time.Millisecond
	// queuedSegments is how many segments make a queue on a link that takes longer than leastQueue for them.
	queuedSegments = 6
)

// stands returns how long a queue has to be to count as one: a few segments always come at once.
func (s summary) stands(rate Rate) time.Duration {
	rate = max(rate, s.most)
	if rate <= 0 {
		return leastQueue
	}
	return max(leastQueue, min(queuedSegments*s.segment(rate), 100*time.Millisecond))
}

// segment returns how long a link of a rate takes for a segment.
func (s summary) segment(rate Rate) time.Duration {
	return time.Duration(min(float64(s.mss)/float64(rate), 1) * float64(time.Second))
}

// telling returns after how many steps what comes tells of the link.
func (s summary) telling() int { return tellingSteps(s.trip) }

// tellingSteps returns after how many steps what comes over a path tells of it.
func tellingSteps(trip time.Duration) int { return int((tellingTrips*trip + Interval - 1) / Interval) }

// seenSteps returns after how many steps it is seen what a larger window brings.
func seenSteps(trip time.Duration) int { return int((2*trip + Interval - 1) / Interval) }

// used reports whether what was planned is used. Full windows say so only while what comes is far from what the link is known to
// carry: near that, they are full because the queue is. If no queue has stood for long, the link carries more than that, and clients
// that wait elsewhere do not count.
func (c *capacity) used(seen summary) bool {
	if seen.open && seen.freeFull > 0 && seen.freeFull >= usedEnough*seen.free {
		return true
	}
	near := seen.delivered > .9*c.known && seen.delivered < 1.1*c.known
	return seen.full > 0 && (seen.filled >= usedEnough*seen.full || !near && seen.full >= usedEnough*seen.planned)
}

func (c *capacity) step(seen summary) Rate {
	standing := seen.stands(max(c.rate, seen.delivered))
	c.grown++
	switch {
	case c.rate == 0 && seen.queue > standing:
		c.rate = max(seen.limit, seen.targets, seen.delivered)
		c.growth = mostGrowth
	case c.rate == 0:
		c.rate = max(seen.limit, seen.targets, blindAhead*seen.delivered)
		c.growth = mostGrowth
	case seen.queue > 2*standing && seen.delivered > 0:
		c.rate, c.growth, c.known = margin*seen.delivered, leastGrowth, seen.delivered
	case seen.queue > standing && seen.delivered > 0:
		c.rate += (margin*seen.delivered - c.rate) / 2
		c.growth, c.known = leastGrowth, seen.delivered
	case c.grown < seenSteps(seen.trip): // what the last growth brings is not seen yet
	case seen.queue < standing/2 && (seen.deepest < 2*standing || seen.open) && c.used(seen):
		more, ahead := max(c.rate, seen.delivered)*Rate(1+c.growth), Rate(mostAhead)
		if c.known == 0 {
			more, ahead = blindAhead*seen.delivered, blindAhead
		}
		c.rate = max(c.rate, min(more, ahead*max(seen.delivered, seen.targets)))
		c.growth, c.grown = min(2*c.growth, mostGrowth), 0
	}
	if seen.limit > 0 {
		c.rate = min(c.rate, seen.limit)
	}
	return c.rate
}
