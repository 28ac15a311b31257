package window

import (
	"math"
	"time"
)

// count is how many connections a client should have.
type count struct {
	now     int
	extra   int         // connections beyond what its window needs, against loss
	missing int         // steps in a row in which loss kept it behind its target
	changes []time.Time // of the last minute
	calm    time.Time   // since when nothing was lost
}

const (
	// largestWindow is what one connection can be relied on to fill: unless told to, kernels do not buffer much more for a
	// sender.
	largestWindow = 2 << 20
	// fullEnough is the part of that, for each connection, below which one fewer will do.
	fullEnough = .8
	// mostConnections is how many a client may have if its policy does not say.
	mostConnections = 8
	// crowdedExtra is how many more connections a client has at least while others fill the
	// queue, and make everybody lose.
	crowdedExtra = 2
	// leastSegments is how many segments each connection's window must have room for, so that a loss is repaired without a
	// timeout.
	leastSegments = 4
	// changesPerMinute bounds how often a client opens and closes connections.
	changesPerMinute = 6
	// missingSteps is how long a client has to be behind its target to get more connections, calmFor how long without loss to
	// get fewer.
	missingSteps, calmFor = 3, 30 * time.Second
	// tooManyFor is how long a client keeps more connections than fit its window.
	tooManyFor = 2 * time.Second
)

// step decides by the window of all connections together. "By using multiple TCP
// connections in a session, higher throughput is expected. […] However, when the number of
// aggregated TCP connections is too large, throughput decreases. This is because window size
// per TCP connection becomes small, and time out occurs frequently" (003 §III-B). On a short link nobody has more than that needs.
func (c *count) step(now time.Time, h *history, bytes float64, crowded, short bool) int {
	most := h.client.MaxConnections
	if most == 0 {
		most = mostConnections
	}
	c.against(now, h)
	fits := max(1, int(bytes/float64(leastSegments*h.client.mss())))
	needed := int(math.Ceil(bytes / largestWindow))
	if bytes > fullEnough*largestWindow*float64(c.now-1) {
		needed = max(needed, c.now)
	}
	if crowded && h.client.Target > 0 {
		c.extra = max(c.extra, crowdedExtra)
	}
	c.extra = min(c.extra, max(0, most-1))
	if short { // the queue, and what it loses, are of our making: more connections make it longer
		c.extra, c.missing = 0, 0
	}
	wanted := min(max(1, needed, min(1+c.extra, fits)), most)
	if c.now == 0 {
		c.now = wanted
	}
	// Each has more than its part then, as no window is less than three segments.
	tooMany := !crowded && c.now > max(fits, needed)
	wait, changes := calmFor/3, changesPerMinute
	switch {
	case wanted > c.now:
		wait = 0
	case tooMany && short:
		wait = tooManyFor
	case tooMany:
		wait, changes = tooManyFor, changes/2
	case wanted < c.now:
		changes /= 2 // a closed connection may have to be opened again
	}
	if wanted != c.now && c.may(now, wait, changes) {
		c.now = wanted
		c.changes = append(c.changes, now)
	}
	return min(c.now, most)
}

// against has more connections against loss: if one is cut to half, the others go on.
func (c *count) against(now time.Time, h *history) {
	if h.disturbed.After(c.calm) {
		c.calm = h.disturbed
	}
	got := (h.recent[0] + h.recent[1] + h.recent[2]) / 3
	disturbed := !h.disturbed.IsZero() && now.Sub(h.disturbed) < 2*owedTime
	if disturbed && got < .97*min(h.client.Target, h.rate) {
		c.missing++
	} else {
		c.missing = 0
	}
	switch {
	case c.missing >= max(missingSteps, tellingSteps(h.trip())):
		c.extra, c.missing = c.extra+max(1, (c.extra+1)/2), 0
	case c.extra > 0 && now.Sub(c.calm) > calmFor:
		c.extra, c.calm = c.extra-1, now
	}
}

// may reports whether the number may change now, if it has not for a while.
func (c *count) may(now time.Time, wait time.Duration, most int) bool {
	for len(c.changes) > 0 && now.Sub(c.changes[0]) >= time.Minute {
		c.changes = c.changes[1:]
	}
	n := len(c.changes)
	return n == 0 || n < most && now.Sub(c.changes[n-1]) >= wait
}
