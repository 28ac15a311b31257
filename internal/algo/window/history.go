package window

import (
	"math"
	"slices"
	"time"
)

// history is what groupcast knows of a client.
type history struct {
	client Client
	step   time.Time // when it was seen last
	// rtt is its round trip now, base the one without a queue. Zero is unknown.
	rtt, base time.Duration
	shorter   bool // base has just become shorter
	doubt     doubt
	growth    growth
	// rate is what its windows are made for, counted how much of that the plan reckons with, and
	// rule by which rule it got that.
	rate, counted Rate
	rule          Reason
	// meant is the rate together with what it is owed and a reserve.
	meant Rate
	// use is what it is thought to use in the next step, infinite while it uses all that it may; reach is what it may turn out to
	// use. Both are the same for most.
	use, reach Rate
	usual      Rate          // throughput in the mean of the last seconds
	recent     [4]Rate       // throughput in the last steps, the latest first
	plans      [4]Rate       // what the windows were made for in these steps
	leaves     int           // steps in a row in which it left some of its windows unused
	isQuiet    bool          // it sends next to nothing, and nothing is known to hold it up
	behind     int           // steps in a row in which it took less than was planned for it, though no queue stood before the access link
	long       bool          // it has sent more than a short transfer
	drained    bool          // the queue has run empty since
	hidden     time.Duration // the longest queue that may be hidden in its round trip
	aside      bool          // it has no part in the queue that others see
	stood      time.Duration // the queue that it saw when the queue was last to run empty
	initial    int           // connections that may turn out to be short
	crowd      int           // steps in a row in which it had such, and more than its part
	// owed is how many bytes it is behind its target.
	owed float64
	// gain corrects the windows by what they bring. free is whether it may grow: the link has
	// room, or others have taken that. due is what it should have then.
	gain        float64
	free        bool
	raised      int // for how many steps that has not been raised
	due         Rate
	jostled     bool // others filled a queue on its way
	outOfOrder  uint64
	disturbed   time.Time // when segments came out of order last
	connections count
	paced       Rate // what it is asked for at most; zero is no bound
	path        path // what it does not share with the others
}

const (
	// forgetAfter is for how long a client that has gone is remembered.
	forgetAfter = time.Minute
	// leavesAfter is for how many steps a part of the windows must be unused before others get it.
	leavesAfter = 2
	// behindAfter is after how many steps a client that takes less than planned is expected to go on like that.
	behindAfter = 4
	// leavesShare is the share of its windows below which a client counts as leaving some unused.
	leavesShare = .75
	// usableShare is how many times what it has used a client may use, so that it can begin to use more.
	usableShare = 1.25
	// usableSegments is how many segments per round trip it may use beyond that.
	usableSegments = 4
	// shortBytes is more than any short transfer has.
	shortBytes = 128 << 10
	// shortAge is longer than any short transfer takes.
	shortAge = 2 * time.Second
	// crowdAfter is for how many steps a client may have more than its part by connections that may be short: after longer than one of
	// them takes, others follow it.
	crowdAfter = 6
	// owedTime is how far a client can be behind its target, in time, and repayTime how long it takes to give it back what it
	// missed.
	owedTime, repayTime = 3 * time.Second, 2 * time.Second
	// tooMuch is how many times what was planned is too much. leastGain and mostGain bound the
	// correction.
	tooMuch, leastGain, mostGain = 1.15, 1. / 32, 2
	// evenly is by how much the parts that clients get may differ, and leastEven the part of a
	// window that is always left when it is made smaller for others' sake.
	evenly, leastEven = .04, .5
)

// observe takes what was seen of a client.
func (h *history) observe(now time.Time, c Client) {
	if h.step.IsZero() {
		h.use, h.gain, h.hidden = Rate(math.Inf(1)), 1, unknown
	}
	h.client, h.step = c, now
	copy(h.recent[1:], h.recent[:])
	copy(h.plans[1:], h.plans[:])
	h.recent[0], h.plans[0] = c.Throughput, h.meant
	h.trips()
	h.losses(now)
}

// judge finds what that says, once all have been observed, of which none waits less than the least.
func (h *history) judge(span time.Duration, served float64, least time.Duration, short bool) {
	h.outgrow(short)
	h.lag(least)
	h.watch()
	h.correct(served)
	h.account(span)
}

// trips finds the round trips: the mean of connections over which something comes, and the least
// of all, as their path is the same.
func (h *history) trips() {
	sum, n, least := time.Duration(0), time.Duration(0), time.Duration(0)
	h.initial = 0
	before := h.base
	for _, one := range h.client.Connections {
		h.long = h.long || one.Received >= shortBytes
	}
	for _, one := range h.client.Connections {
		if known := h.leastOf(one); known > 0 && (least == 0 || known < least) {
			least = known
		}
		if one.RTT > 0 && !one.Idle {
			sum, n = sum+one.RTT, n+1
		}
		if h.isInitial(one) {
			h.initial++
		}
	}
	if h.crowd++; h.initial == 0 || h.recent[0] <= tooMuch*h.plans[0] {
		h.crowd = 0
	}
	h.long = h.long || h.crowd >= crowdAfter
	h.learn(least)
	if n > 0 {
		h.rtt = max(sum/n, h.base)
	}
	h.shorter = before-h.base > max(2*time.Millisecond, before/20)
}

// isInitial reports whether a connection may turn out to be a short one (001 §3.2). A further
// connection of an upload that is not short is none.
func (h *history) isInitial(one Connection) bool {
	return !h.long && one.Received < shortBytes && one.Age < shortAge && h.client.Remaining < shortBytes
}

// losses notices that segments were missing on the way.
func (h *history) losses(now time.Time) {
	sum := uint64(0)
	for _, one := range h.client.Connections {
		sum += one.OutOfOrder
	}
	if sum > h.outOfOrder {
		h.disturbed = now
	}
	h.outOfOrder = sum
}

// granted returns what the windows that are set would bring at least, or what a paced client is asked for;
// infinite if a window is not set.
func (h *history) granted() Rate {
	if h.paced > 0 {
		return h.paced
	}
	sum := Rate(0)
	for _, one := range h.client.Connections {
		if one.Window == 0 || one.RTT == 0 {
			return Rate(math.Inf(1))
		}
		// Up to two segments wait for acknowledgements that are delayed.
		full := max(one.Window-2*one.MSS, one.Window/3)
		sum += Rate(float64(full) / (one.RTT + reading).Seconds())
	}
	return sum
}

// lag notes whether it takes less than was planned for it, and than its windows could bring, though somebody's segments wait for
// nothing: then its own do not wait before the access link, whatever its round trip seems to be. That of one that sends now and then,
// such as a camera, has its pauses in it. It counts as behind for as long as it takes no more than is expected.
func (h *history) lag(least time.Duration) {
	windows := 0
	for _, one := range h.client.Connections {
		windows += one.Window
	}
	could := Rate(float64(windows) / (h.trip() + reading).Seconds())
	lags := h.client.Throughput <= leavesShare*could
	if h.isBehind() {
		lags = lags && h.client.Throughput <= h.use
	} else {
		lags = lags && h.client.Throughput <= leavesShare*h.counted && least < leastQueue
	}
	if !lags || h.rule != Surplus || h.initial > 0 || h.paced > 0 || h.jostled || h.isDisturbed() {
		h.behind = 0
		return
	}
	h.behind++
}

// isBehind reports whether that has been so for long enough.
func (h *history) isBehind() bool { return h.behind >= behindAfter }

// watch finds what the client can use. What it leaves unused for two steps goes to others: "the excess
// buffer is reassigned to other connections" (001 §5.1). One that is quiet, which has sent less than a segment per round trip,
// could use far more at once, most of all over a short path. That is left to it in windows, but nobody goes without for it.
func (h *history) watch() {
	if h.client.Throughput >= leavesShare*h.granted() || h.initial > 0 && h.leaves == 0 {
		h.leaves = 0
	} else {
		h.leaves++
	}
	used, most := max(h.recent[0], h.recent[1])*usableShare, slices.Max(h.recent[:])
	reach := used + usableSegments*h.segments(h.trip())
	h.usual += (h.client.Throughput - h.usual) / usualSteps
	h.reach, h.isQuiet = 0, false
	switch {
	case h.initial > 0 || len(h.client.Connections) == 0:
		// A short transfer is over before others could make room for it: they always leave what such transfers need.
		h.use = h.usual
		if h.client.Active {
			h.use = max(h.use, min(reach, h.client.Target))
		}
	case !h.client.Active:
		h.use = h.client.Throughput
	case h.leaves >= leavesAfter && !h.isDisturbed() && most < h.segments(max(h.rtt, h.trip())): // with losses others may be the reason
		h.use, h.reach, h.isQuiet = used+usableSegments*most, reach, true
	case h.isBehind() && h.leaves < leavesAfter:
		h.use, h.reach = used, Rate(math.Inf(1))
	case h.isBehind():
		h.use, h.reach = used, reach
	case h.leaves >= leavesAfter:
		h.use = reach
	default:
		h.use = Rate(math.Inf(1))
	}
	h.reach = max(h.use, h.reach)
}

// segments returns how much a segment per round trip is.
func (h *history) segments(trip time.Duration) Rate {
	return Rate(float64(h.client.mss()) / trip.Seconds())
}

// mayReach reports whether it may turn out to use more than is expected.
func (h *history) mayReach() bool { return h.reach > h.use }

// isDisturbed reports whether segments were missing on the way of late.
func (h *history) isDisturbed() bool {
	return !h.disturbed.IsZero() && h.step.Sub(h.disturbed) < owedTime
}

// flows reports whether something comes whose round trip tells of the path: that of a client that is behind may have its pauses in it.
func (h *history) flows() bool { return h.tells() && !h.isBehind() }

// tells reports whether something comes whose round trip tells of the path if no other's does. Of a client that is quiet it is of long
// ago, or as long as the other end takes to acknowledge a heartbeat.
func (h *history) tells() bool { return h.sends() && !h.isQuiet }

// sends reports whether something comes, and a round trip is known.
func (h *history) sends() bool { return h.client.Throughput > 0 && h.rtt > 0 }

// delay returns how long what it sends waits on its way.
func (h *history) delay() time.Duration { return h.rtt - h.base }

// isHeldUp reports whether its segments wait somewhere, even if too short for telling whether the queue is its own.
func (h *history) isHeldUp() bool { return h.flows() && h.delay() >= 2*leastQueue }

// trip returns the round trip without a queue, or a guess.
func (h *history) trip() time.Duration {
	if h.base == 0 {
		return usualRTT
	}
	return h.base
}

// correct makes a client's windows smaller if they bring more than they should, for longer than a
// change takes: its round trip is not what it seems then. It makes them larger if the client misses its target while there
// is room, or its minimum. Apart from that, clients that get a larger share of their part than all on average leave a
// little to those that get a smaller one.
func (h *history) correct(served float64) {
	got, meant := min(h.recent[0], h.recent[1], h.recent[2]), max(h.plans[0], h.plans[1], h.plans[2])
	recent := (h.recent[0] + h.recent[1]) / 2
	switch {
	case meant == 0 || got == 0 || h.paced > 0: // something else than windows bounds it
	case got > tooMuch*meant:
		h.gain = max(leastGain, h.gain*max(.5, float64(meant/got)))
	case h.free && !h.grows() && max(h.recent[0], h.recent[1]) < .97*h.due:
		if h.raised++; h.raised >= seenSteps(h.trip()) {
			h.gain, h.raised = min(mostGain, h.gain*1.1), 0
		}
	case h.rule == Priority && h.leaves == 0 && max(h.recent[0], h.recent[1]) < .97*h.client.Minimum:
		h.gain = min(mostGain, h.gain*1.05) // a queue too short to count takes a part of everybody's
	case h.gain < 1 && h.recent[0] < .9*h.plans[0]:
		h.gain = min(1, h.gain*max(1.1, min(2, float64(h.plans[0]/h.recent[0]))))
	case h.jostled && h.gain > 1 && recent > h.client.Target:
		h.gain = max(1, h.gain*.95)
	case h.jostled:
	case h.leaves == 0 && recent < (1-evenly)*Rate(served)*h.plans[0]:
		h.gain = min(mostGain, h.gain*(1+evenly/2))
	case h.gain > leastEven && recent > (1+evenly)*Rate(served)*h.plans[0]:
		h.gain = max(leastEven, h.gain*(1-evenly/2))
	}
}

// grows reports whether its senders may still be about to fill their windows, on a path so long that this takes several steps.
func (h *history) grows() bool {
	return tellingSteps(h.trip()) > 2 && (h.leaves > 0 || h.recent[0] > (1+evenly)*h.recent[1])
}

// account keeps count of how far the client is behind its target.
func (h *history) account(span time.Duration) {
	target := h.client.Target
	h.owed += (target - h.client.Throughput).bytes(span)
	h.owed = min(max(h.owed, 0), target.bytes(owedTime))
	if !h.client.Active || h.leaves >= leavesAfter && h.step.Sub(h.disturbed) > owedTime {
		h.owed = 0 // a lack of window is not the reason
	}
}

// claim returns what it may claim if it can use so much.
func (h *history) claim(use Rate, seen summary, held bool) claim {
	c := h.client
	if !c.Active && h.long {
		return claim{}
	}
	limit, weight := min(use, h.path.limit(c.Target)), float64(c.Target)
	if c.Cap > 0 {
		limit = min(limit, c.Cap)
	}
	if seen.open && h.isHeldUp() {
		limit = min(limit, usableShare*max(h.recent[0], h.recent[1]))
	}
	if weight == 0 {
		weight = max(1, float64(seen.weight))
	}
	if held && c.Target > 0 {
		limit = min(limit, c.Target)
	} else if held { // a client without a target may have the smallest of others
		limit = min(limit, max(seen.weight, c.Minimum))
	}
	return claim{target: c.Target, minimum: c.Minimum, limit: limit, weight: weight, priority: c.Priority}
}
