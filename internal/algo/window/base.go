package window

import "time"

// doubt is what speaks against the round trip that is remembered of a client: its path may have become longer, as from Wi-Fi to a mobile
// network. That looks like a queue that never goes, and windows against that queue would leave the client nothing.
type doubt struct {
	least time.Duration // what has been seen since; zero is none
	lasts time.Duration // for how long something came meanwhile
}

const (
	// doubtCalm is how long all must have shown a longer round trip, without a loss, for the path to be longer, and doubtLong how
	// long whatever is lost: the new connections of a client show a queue that others fill as well, but that loses something now and then.
	doubtCalm, doubtLong = 5 * time.Second, 30 * time.Second
	// doubtShare is the share of a round trip by which another must be longer.
	doubtShare = .1
)

// learn takes the least round trip of the connections that are there, each as the kernel has it of the last minutes; zero is unknown. A
// shorter one counts at once. A longer one counts if no connection knows the shorter one any more, and for some time none has had it:
// a connection that begins while a queue stands has that in its round trip, and has others beside it, or after it, that do not.
func (h *history) learn(least time.Duration) {
	switch {
	case least == 0:
	case h.base == 0 || least < h.base:
		h.base, h.doubt = least, doubt{}
	case least <= h.longer():
		h.doubt = doubt{}
	case !h.long: // a short transfer may never be without a queue
	case h.client.Throughput < h.segments(Interval): // acknowledgements of heartbeats are late
	case h.doubt.least == 0:
		h.doubt.least = least
	default:
		h.doubt.least, h.doubt.lasts = min(h.doubt.least, least), h.doubt.lasts+Interval
		if h.doubt.lasts >= doubtLong || h.doubt.lasts >= doubtCalm && h.step.Sub(h.disturbed) >= doubtCalm {
			h.move(h.doubt.least)
		}
	}
}

// move forgets what was learnt of a path that it has no more: it knows of the new one what a newcomer does.
func (h *history) move(base time.Duration) {
	h.base, h.doubt = base, doubt{}
	h.drained, h.aside, h.hidden = false, false, unknown
	h.gain, h.path = 1, path{}
}

// growth is what speaks for a path having become longer under connections that live on. As long as their kernels remember the shorter one,
// for minutes, it looks like a queue of others that never goes, for whose sake the client gets next to nothing.
type growth struct {
	began       bool          // round trips are longer than they should be
	before      Rate          // what came until then
	least, most time.Duration // round trips since they have been steady
	steady      int           // for how many steps
	moved       time.Time     // when the path was taken to be longer
}

const (
	// steadySteps is for how many steps round trips must be steady without a loss for the path to be longer. A queue of others rises and
	// falls; if it does not, nobody is harmed if it is not seen.
	steadySteps = 20
	// grownShare is the share of what came before below which less must come: then the queue is not of our making.
	grownShare = .7
	// longestGrown is more than any path takes: a client that says so gets no windows for it.
	longestGrown = time.Second
	// kernelKeeps is for how long a kernel remembers the least round trip.
	kernelKeeps = 5 * time.Minute
)

// longer returns the round trip from which on the path may be longer than was known.
func (h *history) longer() time.Duration {
	return h.base + max(leastQueue, time.Duration(doubtShare*float64(h.base)))
}

// outgrow looks whether the path has become longer. On a short link a queue may stand, and many have little.
func (h *history) outgrow(short bool) {
	g := &h.growth
	switch {
	case !h.tells() || !h.long || h.rtt <= h.longer() || h.rtt > longestGrown || short:
		*g = growth{moved: g.moved}
		return
	case !g.began:
		*g = growth{began: true, before: h.usual, moved: g.moved}
	}
	g.least, g.most, g.steady = min(g.least, h.rtt), max(g.most, h.rtt), g.steady+1
	if g.most-g.least > max(leastQueue, time.Duration(doubtShare*float64(g.least))) || h.isDisturbed() {
		g.least, g.most, g.steady = h.rtt, h.rtt, 0
	}
	if g.steady >= steadySteps && h.client.Throughput <= grownShare*g.before {
		h.move(h.rtt)
		*g = growth{moved: h.step}
	}
}

// leastOf returns the least round trip of a connection, as far as it is of the path that there is now.
func (h *history) leastOf(one Connection) time.Duration {
	if since := h.step.Sub(h.growth.moved); h.growth.moved.IsZero() || since > kernelKeeps || one.Age < since {
		return one.LeastRTT
	}
	return min(one.RTT, h.base)
}
