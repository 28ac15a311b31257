package window

import "time"

// muchLess is how many times its part the least windows have to bring for a client to be paced. Pacing ends when they bring no
// more than the part: a client that is not paced is asked for whole seconds' worth at once.
const muchLess = 2

// pace returns how much a client is to be asked for per second if no window is as small as its part:
// three segments over 8 ms are 4 Mbit/s, and as much again with every connection. Nor is one where the path is short, and the link may
// carry more than is stated. Zero is no bound.
func (h *history) pace(seen summary) Rate {
	least, takes := 0., h.meant.bytes(h.trip()+h.queue(seen)+reading)
	for _, one := range h.client.Connections {
		least += float64(FloorSegments * one.MSS)
	}
	if h.paced == 0 {
		takes *= muchLess
	}
	if takes >= least && !h.isShort(seen) || !h.client.Active || h.initial > 0 {
		return 0
	}
	return max(h.meant, Rate(float64(h.client.mss())/Interval.Seconds()))
}

// isShort reports whether a stated link is not kept by windows, as they have room for what comes until it is read: for as much as comes
// in a few round trips, or in many. If the link does not carry more, a queue makes round trips longer; those of a client that is paced
// tell of no queue, but then it has less than it is asked for.
func (h *history) isShort(seen summary) bool {
	if h.paced > 0 {
		return seen.limit > 0 && h.trip() < 2*muchLess*reading && h.leaves == 0
	}
	return seen.limit > 0 && h.trip()+h.queue(seen) < 2*reading
}

// pacedBy returns what a client is asked for at most per second. One of which too little is known yet, on a short path or an unknown one,
// has all of a stated link.
func (h *history) pacedBy(seen summary) Rate {
	if h.paced == 0 && (h.base == 0 || h.isShort(seen)) {
		return seen.limit
	}
	return h.paced
}

// precedence holds clients to their targets while one of higher priority lacks its own and could use it, whichever came first. Each
// priority has a trial of its own: what one lacks for good ends nobody else's.
type precedence map[int]*trial

// trial is whether it helps those of a priority that others are held to their targets. If it does not for a while, what they lack is not
// what the others have: then these get it back, each time for longer, until nobody of the priority has lacked anything for that long.
type trial struct {
	lacks bool      // one does now
	since time.Time // when others began to be held; zero if they are not now
	free  time.Time // until when they are not held, whoever lacks something
	pause time.Duration
}

const (
	// lacksBelow is the share of a target below which it counts as missed.
	lacksBelow = .97
	// heldFor is how long others are held to their targets if that does not help.
	heldFor = 5 * time.Second
	// firstFree and longestFree bound for how long they are free after that.
	firstFree, longestFree = 10 * time.Second, 2 * time.Minute
)

// step returns whether some are held to their targets: those of less than a priority.
func (p precedence) step(now time.Time, all []*history) (below int, holds bool) {
	for _, t := range p {
		t.lacks = false
	}
	for _, h := range all {
		if h.lacks() {
			priority := h.client.Priority
			if p[priority] == nil {
				p[priority] = &trial{}
			}
			p[priority].lacks = true
		}
	}
	for priority, t := range p {
		if t.step(now) && (!holds || priority > below) {
			below, holds = priority, true
		}
		if !t.lacks && t.pause == 0 {
			delete(p, priority)
		}
	}
	return below, holds
}

// step returns whether others are held to their targets.
func (t *trial) step(now time.Time) bool {
	switch {
	case !t.lacks:
		t.since = time.Time{}
		if now.Sub(t.free) > t.pause {
			t.pause = 0
		}
		return false
	case now.Before(t.free):
		return false
	case t.since.IsZero():
		t.since = now
	case now.Sub(t.since) >= heldFor:
		t.pause = min(max(firstFree, 2*t.pause), longestFree)
		t.since, t.free = time.Time{}, now.Add(t.pause)
		return false
	}
	return true
}

// lacks reports whether a client has less than its target although, as far as is known, it would send that much and its own path
// would carry it.
func (h *history) lacks() bool {
	c := h.client
	if !c.Active || h.path.narrow || len(c.Connections) == 0 || h.leaves > 0 && !h.isDisturbed() && !h.waits() {
		return false
	}
	return max(h.recent[0], h.recent[1]) < lacksBelow*c.Target
}

// waits reports whether what a client sends waits in a queue. A kernel lets each connection put only a little into the queue of its own
// interface: if that interface is the narrow one, and others send over it, too, no window is ever full.
func (h *history) waits() bool { return h.flows() && h.delay() > max(leastQueue, h.base/2) }
