package window

import (
	"math"
	"time"
)

const (
	// FloorSegments is how many segments the least window has room for: with fewer, throughput falls off a cliff, as a lone
	// segment waits for its acknowledgement.
	FloorSegments = 3
	// steady is the least difference by which a window is changed.
	steady = .03
	// refSegments is how many segments should wait at the access link, so that it never idles.
	refSegments = 1
	// reserve is how many times as large a target's window is while others fill the queue, whose losses cut congestion windows.
	reserve = 1.3
	// reading is how much time a window covers beyond the round trip. Room is offered again only once the program has read what
	// came, which comes in bursts: a window for the round trip alone is never full, least of all on short paths. A queue of that
	// length does no harm (leastQueue).
	reading = 2 * time.Millisecond
)

// decide makes windows and connections of the rate that was planned.
func (h *history) decide(now time.Time, mode mode, seen summary, damping float64, share *Share) {
	h.jostled = h.crowded(seen)
	h.free = mode != short && h.path.mode != short && (h.jostled || seen.queue < seen.stands(seen.delivered))
	h.due = min(h.client.Target, h.rate)
	if seen.limit > 0 && h.leaves == 0 {
		h.due = h.rate // that much is known to be there
	}
	share.Rate, share.Reason, share.Bottleneck = h.rate, h.reason(), h.bottleneck(mode, seen)
	bytes := h.bytes(seen, damping)
	share.Connections = h.connections.step(now, h, bytes, h.jostled, mode == short && !h.jostled)
	h.paced = h.pace(seen)
	share.Pace = h.pacedBy(seen)
	h.spread(bytes, seen.first, share)
}

// bytes returns the window of all connections together. While others fill the queue, the target's part is
// reckoned with the queue that stands, and what is owed and a reserve are added. Otherwise all is reckoned with the queue
// that should stand.
func (h *history) bytes(seen summary, damping float64) float64 {
	want := min(h.rate, h.client.Target)
	rest := h.rate - want
	trip := h.trip() + h.queue(seen) + reading
	if !h.crowded(seen) {
		h.meant = h.rate
		if seen.drain < 1 {
			h.meant = h.rate * Rate(seen.drain)
			if h.rule == Surplus && !seen.missed() { // otherwise it does not have its target anyway
				h.meant = max(h.meant, min(h.rate, drainTarget*h.client.Target))
			}
		}
		return h.gain * damping * h.meant.bytes(trip)
	}
	want = want*reserve + min(want/2, Rate(h.owed/repayTime.Seconds()))
	if h.client.Cap > 0 {
		want = min(want, h.client.Cap)
	}
	h.meant = want + rest
	return h.gain * (want.bytes(trip) + damping*rest.bytes(trip))
}

// queue returns how long a client's segments wait now, as far as that is believed.
func (h *history) queue(seen summary) time.Duration {
	queue := seen.queue
	if h.path.crowded() {
		queue += h.path.queue
	}
	return min(queue, 3*h.trip()+100*time.Millisecond)
}

// crowded reports whether others fill a queue on the client's way.
func (h *history) crowded(seen summary) bool { return seen.crowded || h.path.crowded() }

// damping returns by how much all windows, which are reckoned with the queue that stands, are made smaller together, so that
// only the queue remains that should stand. If each was reckoned with that queue instead, clients with short round
// trips would get less than their part.
func damping(all []*history, seen summary) float64 {
	should := refSegments * seen.segment(max(seen.delivered, seen.targets, 1))
	meant, would := Rate(0), Rate(0)
	for _, h := range all {
		rest := h.counted
		if h.crowded(seen) {
			rest = max(0, rest-h.client.Target)
		}
		queue := h.queue(seen)
		stays := queue - max(0, min(queue, seen.queue)-should) // a queue on its own path is nothing to the others
		meant += rest
		would += rest * Rate((h.trip()+queue+reading).Seconds()/(h.trip()+stays+reading).Seconds())
	}
	if would == 0 {
		return 1
	}
	return float64(meant / would)
}

// spread divides a client's window among its connections: evenly, but what one does not use
// goes to others. A connection that may be a short one keeps what it was told at its first step.
func (h *history) spread(bytes float64, first int, share *Share) {
	connections := h.client.Connections
	if len(connections) == 0 {
		return
	}
	even := bytes / float64(len(connections))
	spare, takers := 0.0, 0
	for j, one := range connections {
		each := even
		used := one.Throughput.bytes(max(one.RTT, h.trip())+reading)*usableShare + 2*float64(one.MSS)
		if used < leavesShare*even && one.Window > 0 && !h.isInitial(one) {
			each = used
			spare += even - used
		} else {
			takers++
		}
		share.Windows[j] = Window{ID: one.ID, Bytes: whole(each), State: Persistent}
	}
	for j, one := range connections {
		w := &share.Windows[j]
		if takers > 0 && float64(w.Bytes) >= math.Floor(even) {
			w.Bytes = whole(even + spare/float64(takers))
		} else if takers == 0 {
			w.Bytes = whole(even)
		}
		if h.isInitial(one) {
			w.State = Initial
			w.Bytes = max(w.Bytes, min(one.Window, first))
		}
		w.Bytes = hold(one.Window, max(w.Bytes, FloorSegments*one.MSS), one.MSS)
	}
}

// hold keeps the window that is set if the new one would be almost the same.
func hold(set, wanted, mss int) int {
	if set == 0 || math.Abs(float64(wanted-set)) > max(steady*float64(set), float64(mss)/4) {
		return wanted
	}
	return set
}

func (h *history) reason() Reason {
	c := h.client
	switch {
	case !c.Active:
		return Inactive
	case h.rule != Surplus:
		if h.rule == Priority && h.rate <= c.Minimum {
			return Minimum
		}
		return h.rule
	case c.Cap > 0 && h.rate >= c.Cap:
		return Capped
	case h.leaves >= leavesAfter:
		return Unused
	case h.rate > c.Target:
		return Surplus
	}
	return Target
}

// bottleneck returns where it is held up: "if the RTTs of a few TCP connections at the receiver
// host increase, […] the bandwidth of the link other than the access link is a bottleneck"
// (001 §3.3).
func (h *history) bottleneck(mode mode, seen summary) Bottleneck {
	disturbed := h.isDisturbed()
	queued := seen.queue > seen.stands(seen.delivered)
	switch {
	case !h.client.Active || len(h.client.Connections) == 0:
		return None
	case h.path.narrow, h.path.crowded(), h.leaves >= leavesAfter && disturbed && !queued:
		return Elsewhere
	case h.leaves >= leavesAfter && !disturbed:
		return AtClient
	case mode != open || queued:
		return AccessLink
	}
	return None
}
