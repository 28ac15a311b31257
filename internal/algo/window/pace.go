package window

import "time"

// muchLess is how many times more than its part the least windows have to bring for a client to be
// paced. It is left to its windows again when they bring no more: who is not paced is asked for a
// second's worth at once.
const muchLess = 2

// pace is what a client is to be asked for per second where no window is as small as its part:
// three segments over 8 ms are 4 Mbit/s, and with every connection as much again. Zero is no bound.
func (h *history) pace(queue time.Duration) Rate {
	least, takes := 0., h.meant.bytes(h.trip()+queue+reading)
	for _, one := range h.client.Connections {
		least += floorSegments * float64(min(one.MSS, usualMSS))
	}
	if h.paced == 0 {
		takes *= muchLess
	}
	if takes >= least || !h.client.Active || h.initial > 0 {
		return 0
	}
	return max(h.meant, Rate(float64(h.client.mss())/Interval.Seconds()))
}

// precedence has nobody get more than its target while one of higher priority that could use it lacks
// its own, whoever was first. Where that does not help for a while, what the one lacks is not what
// the others have: then they get it back, each time for longer, until nobody has lacked anything for as long as that was.
type precedence struct {
	since time.Time // when those below were held to their targets; zero is not now
	free  time.Time // until when they are not, whoever lacks something
	pause time.Duration
}

const (
	// lacksBelow is the share of a target that is less than it.
	lacksBelow = .97
	// heldFor is for how long others are held to their targets without its helping.
	heldFor = 5 * time.Second
	// firstFree and longestFree are for how long they are free afterwards.
	firstFree, longestFree = 10 * time.Second, 2 * time.Minute
)

// step says who is held to its target: those with less than a priority, if it is said.
func (p *precedence) step(now time.Time, all []*history) (below int, holds bool) {
	for _, h := range all {
		if h.lacks() && (!holds || h.client.Priority > below) {
			below, holds = h.client.Priority, true
		}
	}
	switch {
	case !holds:
		p.since = time.Time{}
		if now.Sub(p.free) > p.pause {
			p.pause = 0
		}
	case now.Before(p.free):
		holds = false
	case p.since.IsZero():
		p.since = now
	case now.Sub(p.since) >= heldFor:
		p.pause = min(max(firstFree, 2*p.pause), longestFree)
		p.since, p.free, holds = time.Time{}, now.Add(p.pause), false
	}
	return below, holds
}

// lacks reports whether a client has less than its target, though it would send it, and its own
// path would carry it, as far as is known.
func (h *history) lacks() bool {
	c, disturbed := h.client, !h.disturbed.IsZero() && h.step.Sub(h.disturbed) < owedTime
	if !c.Active || h.path.narrow || len(c.Connections) == 0 || h.leaves > 0 && !disturbed && !h.waits() {
		return false
	}
	return max(h.recent[0], h.recent[1]) < lacksBelow*c.Target
}

// waits reports whether what a client sends waits in a queue. The kernel of a machine lets no connection put more than a little
// into the queue of its own interface: where that is the narrow one, and others send from there, too, no window is full.
func (h *history) waits() bool { return h.delay() > max(leastQueue, h.base/2) }
