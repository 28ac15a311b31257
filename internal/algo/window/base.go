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
	longer := h.base + max(leastQueue, time.Duration(doubtShare*float64(h.base)))
	switch {
	case least == 0:
	case h.base == 0 || least < h.base:
		h.base, h.doubt = least, doubt{}
	case least <= longer:
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
