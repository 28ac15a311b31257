package window

import (
	"math"
	"time"
)

// path is the way of one client up to the access link, which it does not share with the other
// clients, but perhaps with others. It is dealt with as the access link is. "If the RTTs of a few TCP
// connections at the receiver host increase, our proposed scheme determines that the bandwidth
// of the link other than the access link is a bottleneck" (001 §3.3).
type path struct {
	capacity capacity
	contest  contest
	mode     mode
	narrow   bool          // a queue has stood on it
	queue    time.Duration // on it
}

const (
	// ownShare is the share of a round trip from which on a queue on a client's own path counts.
	ownShare = .25
	// othersToo is how many times what a client had at most its path is thought to carry when telling what counts as a queue on
	// it: others may be there, and a few segments take less time on a wider path.
	othersToo = 1.75
	// wide is how many times what comes a path must be thought to give to hold nobody back.
	wide = 4
)

// step takes what was seen of the client, and shared, the queue before the access link, with whether that is known. As long as all
// have learnt their round trips with a queue, it is not: the client that came first seems to have a queue of its own. While others fill
// the queue before the access link it is known, but never sure: a client that seems to wait longer is believed, but its path is not
// taken to be narrow.
func (p *path) step(now time.Time, h *history, shared time.Duration, known, sure bool) {
	p.queue = 0
	disturbed := h.isDisturbed()
	if h.leaves == 0 || disturbed { // otherwise the client waits, and not its segments
		p.queue = max(0, h.delay()-shared)
	}
	if !known || p.queue < time.Duration(ownShare*float64(h.trip())) {
		p.queue = 0
	}
	seen := summary{
		delivered: h.client.Throughput, planned: h.counted, targets: h.client.Target, queue: p.queue,
		mss: h.client.mss(), disturbed: disturbed, trip: h.trip(), most: othersToo * p.contest.peak,
	}
	if h.leaves == 0 {
		seen.full, seen.filled = seen.planned, seen.delivered
	}
	p.mode = p.contest.step(now, seen)
	// While all wait for the access link, a client that waits longer may do so there as well.
	switch {
	case known && !sure:
		p.narrow = false
	case sure && p.queue > seen.stands(seen.delivered) && shared <= seen.stands(seen.delivered):
		p.narrow = true
	}
	if p.narrow && p.capacity.step(seen) > wide*max(seen.delivered, seen.targets) {
		*p = path{contest: p.contest, mode: p.mode}
	}
}

// crowded reports whether others fill its queue.
func (p *path) crowded() bool { return p.contest.others.there && p.mode != short }

// limit returns what it gives at most.
func (p *path) limit(target Rate) Rate {
	switch {
	case !p.narrow:
		return Rate(math.Inf(1))
	case p.mode == short:
		return p.capacity.rate
	}
	return max(p.capacity.rate, target)
}
