package window

import (
	"slices"
	"time"
)

// groupcast is our own controller. It plans in rates, and makes windows of them with the round
// trip that each path has without a queue. So the windows together are what the access link
// holds without a queue, and if the plan is a few percent too much, only these few percent stand
// in the queue. Windows for targets are made with the queue that stands, so that others who fill it
// take nothing from them.
type groupcast struct {
	histories  map[string]*history
	capacity   capacity
	contest    contest
	precedence precedence
	drain      drain
	hidden     hidden
	last       time.Time
	first      int
	served     float64
	others     Rate // what this node's other transfers are left
}

func newGroupcast(Options) Controller {
	return &groupcast{histories: map[string]*history{}, contest: contest{everybody: true}, precedence: precedence{}, first: mostFirst, served: 1, hidden: hidden{last: unknown}}
}

func (g *groupcast) First() int { return g.first }

func (g *groupcast) Step(now time.Time, facts Facts) Decision {
	facts = sane(facts)
	decision := begin(facts)
	span := Interval
	if !g.last.IsZero() {
		span = min(max(now.Sub(g.last), time.Millisecond), 10*Interval)
	}
	g.last = now
	all := g.observe(now, span, facts)
	g.hidden.step(all)
	seen := summarize(all)
	g.served = seen.served
	seen.most = g.contest.peak
	seen.limit = g.left(facts.Link, seen.queue > seen.stands(seen.delivered))
	// It is known whose queues are seen if enough clients have been seen without one, or while no target is missed.
	sure := seen.drained || !g.drain.possible && !seen.missed()
	known := sure || !g.drain.possible && g.contest.mode == contested
	for _, h := range all {
		h.path.step(now, h, seen.queue, known, sure)
	}
	seen.open = seen.certain && g.contest.calm >= openSteps
	available := g.capacity.step(seen)
	mode := g.contest.step(now, seen)
	seen.crowded = g.contest.others.there && mode != short
	if mode != short {
		available = max(available, seen.targets)
	}
	if seen.limit > 0 {
		available = min(available, seen.limit)
	}
	decision.Available, decision.Queue = available, seen.queue
	g.plan(now, all, available, mode, seen)
	g.first = g.firstWindow(max(available, g.capacity.known), seen)
	seen.first = g.first
	seen.drain = g.drain.step(now, (mode == open || mode == short) && !seen.crowded && g.capacity.known > 0, seen.stands(seen.delivered), seen.missed(), all)
	damping := damping(all, seen)
	for i, h := range all {
		h.decide(now, mode, seen, damping, &decision.Shares[i])
	}
	fit(&decision, facts)
	g.first = g.spare(g.first, decision, facts)
	return decision
}

const (
	// fading is how many steps it takes until others' room, which they do not use, is given away, but for a third of it.
	fading = 4
	// ahead is how many times what they take others are left while a queue stands.
	ahead = 1.1
)

// left returns what this node's other transfers leave of the link; zero is unknown. What they take more is theirs at once. What they take
// less is given away bit by bit: they may just have lost something, and could not come back where uploads fill the link. For the same
// reason they are left more than they take while a queue stands, up to half of the link: it may be this that holds them back.
// Something is always left: what they take now they may not take in a moment.
func (g *groupcast) left(l Link, queued bool) Rate {
	others := l.Others
	if half := l.Rate / 2; queued && others < half {
		others = min(ahead*others, half)
	}
	g.others = max(others, g.others-(g.others-others)/fading)
	if l.Rate == 0 {
		return 0
	}
	g.others = min(g.others, l.Rate) // what is beyond that went another way
	return max(l.Rate-g.others, l.Rate/20)
}

// observe brings the histories up to date, and returns them in the order of the facts. Those
// of clients that have gone are forgotten.
func (g *groupcast) observe(now time.Time, span time.Duration, facts Facts) []*history {
	all := make([]*history, len(facts.Clients))
	for i, c := range facts.Clients {
		h := g.histories[c.Name]
		if h == nil || h.step.Equal(now) { // two of one name have a history each
			h = &history{}
		}
		h.observe(now, c)
		all[i] = h
		g.histories[c.Name] = h
	}
	least := leastDelay(all)
	for _, h := range all {
		h.judge(span, g.served, least, g.contest.mode == short || g.contest.mode == trying)
	}
	for name, h := range g.histories {
		if now.Sub(h.step) > forgetAfter {
			delete(g.histories, name)
		}
	}
	return all
}

// plan divides the bandwidth that is there.
func (g *groupcast) plan(now time.Time, all []*history, available Rate, mode mode, seen summary) {
	claims := make([]claim, len(all))
	below, holds := g.precedence.step(now, all)
	for i, h := range all {
		claims[i] = h.claim(h.use, seen, holds && h.client.Priority < below)
	}
	rates, rule := divide(available, claims)
	// A client that is quiet has the window that would be its own if it were not, and so begins at once: when it does, it is
	// reckoned with in the next step.
	ready := rates
	if slices.ContainsFunc(all, (*history).mayReach) {
		for i, h := range all {
			claims[i] = h.claim(h.reach, seen, holds && h.client.Priority < below)
		}
		ready, _ = divide(available, claims)
	}
	for i, h := range all {
		h.rate, h.counted, h.rule = rates[i], rates[i], rule
		if h.mayReach() {
			h.rate = max(rates[i], ready[i])
		}
		if rule == Surplus && mode != short {
			// A window for the whole target costs nothing while it is not used.
			h.rate = max(h.rate, min(h.client.Target, h.path.limit(h.client.Target)))
		}
	}
}

const (
	mostFirst  = 32 << 10
	leastFirst = 8 << 10
	// firstTime is how long the link may be busy with the first windows of new connections: how long a short transfer may wait
	// for others like it.
	firstTime = 100 * time.Millisecond
)

// firstWindow is what a connection gets before its first step: so much that a short transfer is
// done by then, but so little that many that come at once do not fill the queue.
func (g *groupcast) firstWindow(available Rate, seen summary) int {
	if g.capacity.known == 0 { // no queue has stood yet
		return mostFirst
	}
	each := available.bytes(firstTime) / float64(1+seen.initial)
	if seen.crowded {
		each /= 4
	}
	return int(min(max(each, leastFirst), mostFirst))
}
