// Package parallel finds how many connections, called stripes, a link between two neighbours should
// have, and how large their buffers should be.
//
// "Multiple sockets may be used to get a better use of the bandwidth capacity, often
// yielding linear speedup" (002 §3.2), where a single connection is held back by
// its buffers, or by loss on a long path. But "there is no optimal number of concurrent connections
// that generates maximum throughput for all the socket buffer sizes", and beyond some number
// "interferences among concurrent socket connections […] have adverse impact". So a Tuner finds
// out: it tries another number, and keeps it only if that is a gain.
//
//	           ┌────────── gained: on ──────────┐
//	           ▼                                │
//	settle ─▶ measure ─▶ try more or fewer ─▶ measure ─▶ judge
//	           ▲                                │
//	           └── rest ◀── no gain: back ──────┘
//
// It begins with one, which fills a path that loses nothing by itself. Several that start
// together fill its queue together, and what they bring waits for the stripe that lost most. The first
// loss tells what the path is like: if no queue stood, the path loses by itself, and as many stripes as the
// round trip suggests are made at once.
//
// A standing queue is what more stripes do to others, and to themselves. While a queue stands
// their number is never raised but lowered, until that costs something and the
// queue is gone: then it was this link's own queue, and not one that others fill.
package parallel

import "time"

// Most is how many stripes a link has at most.
const Most = 16

const (
	// shortRTT is the round trip below which one connection fills any path: it recovers from a loss in no time.
	shortRTT = 2 * time.Millisecond
	// eachRTT is how much round trip suggests one more stripe where the path loses packets by itself, up to
	// lossyMost stripes. "The best transfer times are achieved with the number of concurrent connections at
	// between 8 and 13" (§3.2, figure 2).
	eachRTT   = 6 * time.Millisecond
	lossyMost = 8
	// queueTime is how long a queue must be to count as standing; shortQueue, to be the cause of a loss.
	queueTime, shortQueue = 5 * time.Millisecond, 4 * time.Millisecond
	// leastEpoch and epochRTTs are the least time for which something is measured.
	leastEpoch = 700 * time.Millisecond
	epochRTTs  = 10
	// leastSettle and settleRTTs are for how long nothing is measured after a change, because of slow start.
	leastSettle = 200 * time.Millisecond
	settleRTTs  = 5
	// firstRest is after how long another number is tried if the last trial was no gain. It doubles
	// with each such trial, up to longRest.
	firstRest = 5 * time.Second
	longRest  = 40 * time.Second
	// busyEnough is the share of the time in which there must be something to send for a measurement to tell anything.
	busyEnough = 0.7
	// enough is the share of the best rate that fewer stripes must carry to be as good as more.
	enough = 0.95
	// tooLittle is the gain below which they are given up after half of the usual measurement, and
	// farTooLittle after a quarter.
	tooLittle    = 0.85
	farTooLittle = 0.7
	// mostDoubts is by how many epochs at most a trial of fewer stripes is prolonged.
	mostDoubts = 4
)

// Facts are what is known of a link at a time. Counts begin with the link.
type Facts struct {
	At            time.Time
	RTT, LeastRTT time.Duration
	Delivered     uint64        // bytes that have arrived
	Sent, Lost    uint64        // segments sent, and how many of them were sent again
	Busy          time.Duration // the time in which there was something to send, as the mean over the stripes in use
}

// waits reports whether segments wait on the path, if only for a moment: a short queue is full a moment before it loses
// something.
func (f Facts) waits() bool {
	return f.RTT > f.LeastRTT+f.LeastRTT/64+shortQueue
}

// Bounds say how many stripes are allowed. Where Least or Most is zero it counts as one.
type Bounds struct{ Least, Most int }

// Within returns the bounds that remain if the other end allows so many at most.
func (b Bounds) Within(most int) Bounds {
	return Bounds{Least: min(b.Least, most), Most: min(b.Most, most)}
}

// within returns the allowed number that is nearest to a number.
func (b Bounds) within(stripes int) int {
	most := max(1, min(b.Most, Most))
	return min(max(stripes, b.Least, 1), most)
}

// Tuner decides for one link.
type Tuner struct {
	bounds Bounds
	own    int // the most that they allowed at first
	choice Choice
	since  Facts // when the present measurement began; zero while the link settles
	looked Facts // at the last step
	rtts   time.Duration
	looks  int       // how many round trips rtts is the sum of
	change time.Time // when the number was last changed; zero before the first facts
	before Measured  // what was measured with the number before the trial; without a trial, with the present number
	peak   float64   // the best rate since the number last grew, or the path last changed
	lossy  losses
	loses  bool // the path loses packets by itself
	trial  trial
	rest   time.Duration
	until  time.Time // nothing is tried before
	missed time.Time // when a trial last was no gain
	failed trial     // the trial that is not worth repeating next
	lasted int       // measurements since the last trial
	doubts int       // how many trials of fewer in a row failed: each prolongs the next one
}

type trial int

const (
	none trial = iota
	up
	down
)

// opposite gives the trial that is not made after a trial that was a gain.
var opposite = map[trial]trial{up: down, down: up}

// New returns the tuner of a link that has its first stripe. rtt is the round trip that was
// measured when it was opened. earlier is the number of stripes that an earlier link between the
// two ended with, or zero.
func New(rtt time.Duration, earlier int, bounds Bounds) *Tuner {
	t := &Tuner{bounds: bounds, own: bounds.within(Most), rest: firstRest}
	t.choice = t.begin(rtt, earlier)
	if t.choice.Reason == Begun {
		t.lossy.suggests = min(1+int(rtt/eachRTT), lossyMost)
	}
	t.choice.now.RTT = rtt
	t.choice.Piece = t.piece(0)
	return t
}

func (t *Tuner) begin(rtt time.Duration, earlier int) Choice {
	least, most := t.bounds.within(1), t.bounds.within(Most)
	switch {
	case least == most:
		return Choice{Stripes: least, Reason: Fixed}
	case rtt < shortRTT:
		return Choice{Stripes: least, Reason: Short}
	case earlier > 0:
		return Choice{Stripes: t.bounds.within(earlier), Reason: Known}
	}
	return Choice{Stripes: least, Reason: Begun}
}

// Choice returns what the link should have now.
func (t *Tuner) Choice() Choice { return t.choice }

// Step takes facts, and reports whether it has changed the choice.
func (t *Tuner) Step(facts Facts) (changed bool) {
	if t.choice.Reason == Fixed || t.choice.Reason == Short && facts.LeastRTT < shortRTT {
		t.enlarge(facts)
		return false
	}
	if t.change.IsZero() {
		t.change = facts.At
	}
	if t.choice.Reason == Begun && facts.LeastRTT > 0 && facts.LeastRTT < shortRTT { // the opening took longer than the path does
		t.choice.Reason, t.choice.now.RTT = Short, facts.LeastRTT
		t.choice.Piece = t.piece(0)
		return true
	}
	t.enlarge(facts)
	if suggested := t.bounds.within(t.lossy.suggests); t.lossy.sees(facts) && suggested > t.choice.Stripes {
		t.lossyPath(suggested, facts)
		return true
	}
	switch {
	case facts.At.Sub(t.change) < max(leastSettle, settleRTTs*facts.RTT):
		return false
	case t.since.At.IsZero():
		t.begun(facts)
		return false
	}
	t.rtts, t.looks = t.rtts+facts.RTT, t.looks+1
	now := t.measure(facts)
	span, epoch := facts.At.Sub(t.since.At), max(leastEpoch, epochRTTs*facts.RTT)
	if t.trial == down {
		epoch *= time.Duration(1 + min(t.doubts, mostDoubts))
	}
	if span < epoch && !t.fails(now, span, epoch) {
		return false
	}
	t.begun(facts)
	return t.judge(now, facts.At)
}

// enlarge makes the pieces follow a rate that grows, before anything is judged: a fast link pays for each piece.
func (t *Tuner) enlarge(facts Facts) {
	before := t.looked
	t.looked = facts
	if span := facts.At.Sub(before.At).Seconds(); !before.At.IsZero() && span > 0 {
		share := float64(facts.Delivered-before.Delivered) / span / float64(t.choice.Stripes)
		t.choice.Piece = max(t.choice.Piece, t.piece(share))
	}
}

// lossyPath gives the link as many stripes as the round trip suggests. Fewer are not tried at once: those that are new fill the
// queue as they start.
func (t *Tuner) lossyPath(suggested int, facts Facts) {
	t.lossy, t.loses, t.trial, t.lasted = losses{}, true, none, 0
	t.until, t.missed = facts.At.Add(firstRest), facts.At
	t.set(suggested, Lossy, Measured{RTT: facts.RTT, LeastRTT: facts.LeastRTT, Loss: float64(facts.Lost) / float64(max(1, facts.Sent))}, facts.At)
}

// losses finds out whether a path loses packets by itself. If a queue stands, the queue was full, and what is sent
// again in the next round trips was lost there.
type losses struct {
	suggests int   // how many stripes the link should have then; 0 if that is not of interest
	since    Facts // the first facts
	seen     uint64
	until    time.Time // until then losses are explained by a queue
}

// sees reports whether something was lost without a queue, on a link that had enough to send.
func (l *losses) sees(facts Facts) bool {
	if l.since.At.IsZero() {
		l.since = facts
	}
	more := facts.Lost > l.seen
	l.seen = facts.Lost
	switch {
	case l.suggests == 0 || !more:
		return false
	case facts.waits():
		l.until = facts.At.Add(settleRTTs * facts.LeastRTT)
		return false
	}
	return facts.At.After(l.until) && (facts.Busy-l.since.Busy).Seconds() >= busyEnough*facts.At.Sub(l.since.At).Seconds()
}

// Limit bounds the number of stripes by what the neighbour takes now, and reports whether it has changed the choice.
func (t *Tuner) Limit(most int, at time.Time) (changed bool) {
	t.bounds.Most = min(t.own, most)
	if t.choice.Stripes <= t.bounds.Most {
		return false
	}
	t.trial, t.lasted = none, 0
	t.set(t.bounds.Most, Limited, t.choice.now, at)
	return true
}

// begun begins a measurement.
func (t *Tuner) begun(facts Facts) { t.since, t.rtts, t.looks = facts, 0, 0 }

// fails reports whether fewer stripes carry so much less that the first trial of them need not be
// completed. Later trials are: neighbours need a while to take what they are left, and to fill the
// queue with it.
func (t *Tuner) fails(now Measured, span, epoch time.Duration) bool {
	if t.trial != down || t.doubts > 0 || now.queues() {
		return false
	}
	return span >= epoch/2 && now.Rate < tooLittle*t.peak || span >= epoch/4 && now.Rate < farTooLittle*t.peak
}

func (t *Tuner) measure(to Facts) Measured {
	from := t.since
	span := to.At.Sub(from.At).Seconds()
	m := Measured{
		Rate: float64(to.Delivered-from.Delivered) / span, RTT: t.rtts / time.Duration(t.looks), LeastRTT: to.LeastRTT,
		Busy: (to.Busy - from.Busy).Seconds() / span,
	}
	if sent := to.Sent - from.Sent; sent > 0 {
		m.Loss = float64(to.Lost-from.Lost) / float64(sent)
	}
	return m
}

// judge decides by what was measured with the present number, and reports whether it has changed the choice.
func (t *Tuner) judge(now Measured, at time.Time) (changed bool) {
	t.lasted++
	switch {
	case now.Busy < busyEnough: // the source of this link is slower than the link
		t.resize(now)
		return t.trial != none && t.conclude(now, at, false, NoGain)
	case t.trial == up:
		return t.conclude(now, at, gains(t.choice.was, t.choice.Stripes, t.before, now), Gained)
	case t.trial == down && now.Rate >= enough*t.peak:
		return t.conclude(now, at, true, Enough)
	case t.trial == down: // if a queue stands even so, others have what is missing
		return t.conclude(now, at, now.queues(), Crowded)
	}
	if t.isAnother(now) { // the path has changed: what was found is not valid any more
		t.until, t.rest, t.failed, t.peak, t.doubts, t.loses = t.missed.Add(firstRest), firstRest, none, 0, 0, false
	}
	t.before, t.peak = now, max(t.peak, now.Rate)
	t.resize(now)
	if at.Before(t.until) {
		return false
	}
	return t.try(now, at)
}

// isAnother reports whether the path has changed since the number was found.
func (t *Tuner) isAnother(now Measured) bool {
	return t.lasted > 1 && (now.Rate < t.before.Rate*2/3 || now.Rate > t.before.Rate*3/2)
}

// gains reports whether more stripes are worth it: they have to bring an eighth of what they would
// if each carried as much as before. Much more loss than before says that this was taken from
// others. A queue that stands now might say the same, but perhaps it stands only because there are
// more stripes than needed: a trial of fewer will tell.
func gains(was, is int, before, now Measured) bool {
	linear := float64(is) / float64(was)
	worth := 1 + (linear-1)/8
	return now.Rate >= worth*before.Rate && now.Loss <= 2*before.Loss+0.01
}

// try begins a trial of another number, if there is one to try.
func (t *Tuner) try(now Measured, at time.Time) (changed bool) {
	next, way := t.next(now)
	if way == none {
		return false
	}
	reason := More
	if way == down {
		reason = Fewer
	}
	t.trial = way
	t.set(next, reason, now, at)
	return true
}

// next returns the number to try. If neither more nor fewer were a gain, they take turns.
func (t *Tuner) next(now Measured) (stripes int, way trial) {
	n := t.choice.Stripes
	fewer, more := t.bounds.within(n-max(1, n/4)), t.bounds.within(n+max(1, n/2))
	switch {
	case fewer < n && (now.queues() || more == n || t.failed == up):
		return fewer, down
	case more > n && !now.queues():
		return more, up
	}
	return n, none
}

// conclude ends a trial: either its number is kept, or the link goes back to the number before.
func (t *Tuner) conclude(now Measured, at time.Time, kept bool, reason Reason) (changed bool) {
	way, was := t.trial, t.choice.was
	t.trial, t.lasted = none, 0
	if kept && way == up {
		t.peak, t.doubts = now.Rate, 0
	}
	if kept {
		t.choice.Reason, t.choice.before, t.choice.now = reason, t.before, now
		t.before, t.failed = now, opposite[way]
		t.resize(now)
		t.until = at // perhaps still more are better, or still fewer
		if way == down && (t.loses || !now.queues()) {
			t.until = at.Add(firstRest) // they are in nobody's way now, or lose so much that what they carry tells little
		}
		return true
	}
	reason = NoGain
	if way == down {
		reason = Needed
		t.doubts++
	}
	tried := t.choice.Stripes
	t.choice.before = t.before
	t.set(was, reason, now, at)
	t.choice.was = tried
	t.failed, t.missed = way, at
	t.until = at.Add(t.rest)
	t.rest = min(2*t.rest, longRest)
	return true
}

// set gives the link another number of stripes.
func (t *Tuner) set(stripes int, reason Reason, now Measured, at time.Time) {
	t.choice.was, t.choice.Stripes, t.choice.Reason, t.choice.now = t.choice.Stripes, stripes, reason, now
	t.change = at
	t.begun(Facts{})
	t.resize(t.before)
}

// resize chooses buffers. "To get maximum throughput, it is critical to use optimal TCP
// send and receive socket buffer size […]. If the buffers are too small the TCP congestion
// window will never fully open, and if they are too large the sender can overrun the
// receiver" (§3.2).
func (t *Tuner) resize(m Measured) {
	share := m.Rate / float64(t.choice.Stripes)
	t.choice.Buffer = max(leastBuffer, uint64(2*share*m.RTT.Seconds()))
	t.choice.Piece = t.piece(share)
}

const (
	leastBuffer = 32 << 10
	leastPiece  = 16 << 10
	mostPiece   = 1 << 20
	// pieceTime is how long a stripe takes for a piece.
	pieceTime = 20 * time.Millisecond
)

// piece returns how much a stripe that carries a rate is handed at once. Nobody waits for a stripe that stays alone.
func (t *Tuner) piece(rate float64) uint64 {
	if t.choice.Alone() {
		return mostPiece
	}
	return max(leastPiece, min(mostPiece, uint64(rate*pieceTime.Seconds())))
}
