// Package relay keeps account of one delivery at one session agent: what is
// acknowledged to the parent, how much more may be sent to the agent, and what its
// cache must hold. Paper 000 gives the rule of both control modes (§III-A, §III-B);
// the hard limit of the cache is ours.
//
//	0          discarded      floor            arrived         credit
//	|··············|─────────────|────────────────|···············|
//	    released     kept, all    cached: somebody   promised to
//	                 have it      has not           the parent
//
// From discarded to credit is what the cache must have room for. Bytes before the
// floor are acknowledged by every child; they are kept while there is room, for
// children that come late, and discarded when there is none.
//
// An Account knows neither sockets nor files: its owner tells it what happened,
// and does what it says.
package relay

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Mode says when an agent acknowledges.
type Mode uint8

// The control modes.
const (
	// Hop acknowledges a byte as soon as it is in the cache.
	Hop Mode = iota
	// EndToEnd acknowledges a byte when every child has.
	EndToEnd
)

// Action is what happens to a child that cannot keep up.
type Action uint8

// The actions.
const (
	// Pace makes the other children wait for it, down to a floor rate.
	Pace Action = iota
	// Detach feeds it from the cache. If the cache is full it loses its place there, and waits until the others are done.
	Detach
	// Evict gives it up if it lags too far or for too long.
	Evict
)

// Rules are what an account goes by.
type Rules struct {
	Mode Mode
	// Grain is the unit in which the cache discards: always a multiple of it, counted from the start. 0 means one byte.
	Grain uint64
	// Window is, for EndToEnd, how many bytes may be under way beyond what all children have.
	Window uint64
	Slow   Action
	// FloorRate is the rate, in bytes per second, below which Pace gives a child up; 0 means never.
	FloorRate uint64
	// LagBytes and LagTime are how far a child may fall behind with Evict; 0 is no limit. What a child lacked
	// when it came, or when it went on after waiting, does not count, nor the time in which it catches up on that.
	LagBytes uint64
	LagTime  time.Duration
	// Stream says that the delivery may never end: children that wait for the others go on when those have what there is.
	Stream bool
	// Asked says that children know what they lack: nothing comes that none of them asks for.
	Asked bool
}

// ErrNotSent says that a child acknowledged what it was never sent.
var ErrNotSent = errors.New("acknowledges what it was not sent")

// Account is the state of one delivery.
type Account struct {
	rules     Rules
	arrived   uint64
	reached   uint64 // the most that has arrived, wherever it began
	began     uint64 // where the delivery began, the last time
	discarded uint64
	credit    uint64
	room      uint64 // how many bytes the cache has for this delivery
	ended     bool   // arrived is all there is
	length    uint64 // the length of the whole, once known; it stays when the delivery begins again
	maxCached uint64
	came      mark      // what had arrived when it was looked for slow children, and since when no more has
	promised  mark      // what was promised when it was looked for slow children, and since when no more has been, or some child has lacked something
	full      time.Time // when the cache was last full of what some children lack
	lull      mark      // since when all children that do not wait have what there is of a stream, and up to where they last had it; zero if they do not
	children  map[string]*child
	whole     uint64 // how long the object is, or the most that there can be
	quickest  int    // with Asked: how many looks it took the first child to find out what it has
}

type child struct {
	acked    uint64
	sent     uint64
	asked    uint64 // with Asked: it may be sent all before this
	quiet    int    // with Asked: at how many looks in a row it has asked for nothing
	began    bool   // with Asked: it has asked for something
	patience int    // with Asked: it is awaited for so many looks more, since another asked for nothing for that long
	relays   bool   // it is an agent: end to end, what it acknowledges is what its own children have
	passed   uint64 // of an agent, and hop by hop: the members below it have all before this
	had      uint64 // how far it was sent to when its link ended
	attached bool
	parked   bool      // it lost its place in the cache: it goes on when the others are done
	came     bool      // it was attached at some time
	linked   time.Time // when it was attached last
	abreast  bool      // it has caught up with what there was when it came
	leastLag uint64
	mark     mark
	brake    mark // since when it holds up others; zero if it does not
	still    mark // since when it has taken nothing of what it lacks; zero is not known
	lost     bool // it has lost its place in the cache, and was not heard of since
	stood    bool // it took nothing for longer than any path is, or since it lost its place before, and was not heard of since
}

// mark is an offset that the agent had reached at a time. A child that reaches it late is slow.
type mark struct {
	offset uint64
	acked  uint64
	at     time.Time
}

// New returns the account of a delivery of which nothing has come yet. It has no room.
func New(rules Rules) *Account {
	return &Account{rules: rules, whole: math.MaxUint64, children: make(map[string]*child)}
}

// Expect says who the children are. A child that is expected counts whether it has
// come or not; one that is no longer expected does not count.
func (a *Account) Expect(names []string) {
	for name := range a.children {
		if !slices.Contains(names, name) {
			delete(a.children, name)
		}
	}
	for _, name := range names {
		if a.children[name] == nil {
			a.children[name] = &child{}
		}
	}
}

// Relays notes that a child is an agent, which has children of its own.
func (a *Account) Relays(name string) { a.children[name].relays = true }

// Expects reports whether a child is one of the tree.
func (a *Account) Expects(name string) bool { return a.children[name] != nil }

// Attach notes that a child has come and wants all from an offset on. It reports
// whether the cache can give that. If not, the delivery must be begun again from
// there, see Restart, or the child waits. A child that already had to wait goes on waiting then. One whose link has broken
// is as slow as if it had stayed: otherwise one that breaks again and again would hold up the others for ever.
func (a *Account) Attach(name string, from uint64, now time.Time) (served bool) {
	c := a.children[name]
	if c == nil {
		panic("relay: a child that nobody expects was attached")
	}
	served = from >= a.discarded
	anew := !c.came || c.parked || !served // it comes for the first time, or goes on after waiting
	c.acked, c.sent, c.asked, c.attached, c.parked, c.linked = from, from, from, true, c.parked && !served, now
	c.had, c.passed = 0, 0
	c.heard()
	if anew {
		c.came, c.abreast, c.leastLag, c.brake = true, false, a.lag(c), mark{}
	}
	if anew || c.mark.at.IsZero() || from >= c.mark.offset {
		c.mark = mark{a.arrived, from, now}
	}
	c.mark.acked, c.brake.acked = min(c.mark.acked, from), min(c.brake.acked, from)
	return served
}

// Ahead returns from where the children want the delivery, if all of them have come and
// none needs what would come before that: they have it from an
// earlier delivery, or from another agent. So many bytes must be spared that it is worth
// opening links anew. The owner then calls Restart.
func (a *Account) Ahead(worth uint64) (from uint64, far bool) {
	if a.ended {
		return 0, false
	}
	if a.rules.Asked {
		from, far = a.front()
		return from, far && from >= a.arrived+worth
	}
	if !a.Gathered() || len(a.children) == 0 {
		return 0, false
	}
	from = math.MaxUint64
	for _, c := range a.children {
		from = min(from, c.acked)
	}
	return from, from >= a.arrived+worth
}

// Gathered reports whether all children have come.
func (a *Account) Gathered() bool {
	for _, c := range a.children {
		if !c.attached {
			return false
		}
	}
	return true
}

// Attached reports whether any child has come.
func (a *Account) Attached() bool {
	for _, c := range a.children {
		if c.attached {
			return true
		}
	}
	return false
}

// Park makes a child wait until the others are done: the cache no longer holds what it needs.
func (a *Account) Park(name string) {
	if c := a.children[name]; c != nil {
		c.parked = true
	}
}

// Detach notes that a child's link has ended. What it acknowledged stays acknowledged: it may come back, or another link for it.
func (a *Account) Detach(name string) {
	if c := a.children[name]; c != nil {
		c.had = max(c.had, c.sent)
		c.attached, c.sent = false, c.acked
	}
}

// Sent notes how far a child was sent to.
func (a *Account) Sent(name string, upTo uint64) {
	if c := a.children[name]; c != nil {
		c.sent = max(c.sent, upTo)
	}
}

// Acked notes that a child has all before an offset.
func (a *Account) Acked(name string, upTo uint64) error {
	c := a.children[name]
	switch {
	case c == nil || upTo <= c.acked:
		return nil // late, or from a child that was moved
	case upTo > c.sent:
		return fmt.Errorf("%s %w: %d of %d", name, ErrNotSent, upTo, c.sent)
	}
	c.acked, c.lost, c.stood = upTo, false, false
	return nil
}

// Ready notes that a child may be sent more. If nothing is under way to it, it does not hang, though it has taken nothing
// for long: its cache was full, say.
func (a *Account) Ready(name string) {
	if c := a.children[name]; c != nil && c.sent == c.acked {
		c.heard()
	}
}

// heard notes that a child was heard of.
func (c *child) heard() { c.still, c.lost, c.stood = mark{}, false, false }

// Arrived notes that all before an offset is in the cache.
func (a *Account) Arrived(upTo uint64) {
	a.arrived = max(a.arrived, upTo)
	a.reached = max(a.reached, a.arrived)
	a.maxCached = max(a.maxCached, a.Cached())
}

// End notes that everything has arrived.
func (a *Account) End() { a.ended, a.length = true, a.arrived }

// Bare reports whether nothing has come since the delivery began, so that the parent has confirmed nothing of what the children
// said that they have.
func (a *Account) Bare() bool { return a.arrived == a.began && !a.ended }

// Lost reports whether what follows an offset has been in the cache since the delivery began, and was discarded.
func (a *Account) Lost(from uint64) bool { return a.began <= from && from < a.discarded }

// Needed returns from where the delivery has to begin again if it is to do so at an offset: earlier, if a child that has come
// and does not wait needs more.
func (a *Account) Needed(from uint64) uint64 {
	for _, c := range a.children {
		if c.attached && !c.parked && !a.isPassedOver(c) {
			from = min(from, c.acked)
		}
	}
	return from
}

// Restart begins again from an offset: the cache no longer has what follows it.
// Children that are further on wait until that has come again. A parked child that needs what comes before the offset stays parked.
func (a *Account) Restart(from uint64) {
	a.began, a.arrived, a.discarded, a.credit = from, from, from, from
	a.ended, a.lull, a.promised = false, mark{}, mark{}
	for _, c := range a.children {
		c.parked = c.parked && c.acked < from
		c.beginAgain()
	}
}

// floor returns the offset before which no child needs anything any more. Without children nobody needs what has arrived.
func (a *Account) floor() uint64 {
	floor := a.arrived
	for _, c := range a.children {
		if !c.parked && !a.isPassedOver(c) {
			floor = min(floor, c.acked)
		}
	}
	return floor
}

// Cached returns how many bytes the cache holds that some child has not acknowledged. This is the
// cached data of §IV-B, which does not include what is kept for children to come.
func (a *Account) Cached() uint64 { return a.arrived - max(min(a.floor(), a.arrived), a.discarded) }

// MaxCached returns the highest value that Cached has had.
func (a *Account) MaxCached() uint64 { return a.maxCached }

// Held returns how many bytes the cache holds.
func (a *Account) Held() uint64 { return a.arrived - a.discarded }

// Offset returns the offset before which everything has arrived.
func (a *Account) Offset() uint64 { return a.arrived }

// Discarded returns the offset before which the cache no longer has anything.
func (a *Account) Discarded() uint64 { return a.discarded }

// Ack returns the offset before which everything is acknowledged to the parent.
//
// "When session agent SA1 receives successive packets […] it caches the received
// packets, and then immediately returns acknowledgment (ACK) packets to the sender"
// (§III-A); "the session agent returns ACK packets to the sender after receiving it
// from all the receivers and session agents" (§III-B).
func (a *Account) Ack() uint64 {
	if a.rules.Mode == EndToEnd {
		return min(a.floor(), a.arrived)
	}
	return a.arrived
}

// Credit returns the offset up to which the parent may send. It never goes back on what was
// promised over a link, and never promises more than there is room for: so nothing that was
// accepted is ever dropped.
func (a *Account) Credit() uint64 { return a.credit }

// Withdraw takes back what was promised over a link that has ended, as far as it did not come.
func (a *Account) Withdraw() { a.credit = a.arrived }

// Want returns how much room the cache should have for this delivery at best: enough for all that the mode allows to come.
func (a *Account) Want(length uint64) uint64 {
	target := length
	if a.rules.Mode == EndToEnd {
		target = min(target, a.floor()+a.rules.Window)
	}
	if a.rules.Asked {
		target = min(target, max(a.asked(), a.arrived))
	}
	return max(target, a.credit) - a.discarded
}

// Reserve says how much room the cache has for this delivery, and gives credit for it. Room that
// was promised is never taken back.
func (a *Account) Reserve(room, length uint64) {
	a.room, a.whole = room, length
	a.credit = max(a.credit, min(a.discarded+room, a.discarded+a.Want(length)))
}

// Reserved returns how much room is taken or promised.
func (a *Account) Reserved() uint64 { return a.credit - a.discarded }

// Discard returns up to where the cache should discard to have a number of bytes
// more, at most up to a limit, from where somebody may be reading. Only what every child has is discarded: "When it receives ACK
// packets from all receivers and the session agent, it discards the cached packet" (§III-A).
func (a *Account) Discard(needed, limit uint64) (upTo uint64) {
	grain := max(a.rules.Grain, 1)
	upTo = min(a.discarded+needed+grain-1, limit, a.floor(), a.arrived)
	a.discarded = max(a.discarded, upTo-upTo%grain)
	return a.discarded
}

// DiscardAll returns the offset up to which the cache should discard when nothing more is under way;
// the last bytes need not fill a grain then.
func (a *Account) DiscardAll(limit uint64) (upTo uint64) {
	if min(limit, a.floor()) >= a.arrived {
		a.discarded = a.arrived
	}
	return a.Discard(a.Held(), limit)
}

// Spare returns how much DiscardAll would have the cache discard.
func (a *Account) Spare(limit uint64) uint64 {
	upTo := min(limit, a.floor())
	if upTo >= a.arrived {
		return a.Held()
	}
	upTo -= upTo % max(a.rules.Grain, 1)
	return max(upTo, a.discarded) - a.discarded
}

// Stalled reports whether all that was promised has come, so that only what the
// children do can make room for more.
func (a *Account) Stalled() bool { return !a.ended && a.arrived == a.credit && !a.Idle() }

// Unpark has the children that wait go on, once every other child has everything, or hangs; Resume does so for streams.
// The owner calls it now and then. It returns from where the delivery has to begin again for them if the cache no longer holds
// what they need: the owner then calls Restart. It does not begin again for a child that hangs itself.
func (a *Account) Unpark(now time.Time) (from uint64, needed bool) {
	from = a.arrived
	for _, c := range a.children {
		switch {
		case a.rules.Asked && !a.isAsking(c):
		case c.parked && c.acked < a.discarded:
			if !c.stood {
				from, needed = min(from, c.acked), true
			}
		case !c.parked && c.acked < a.arrived && (!a.ended || !a.stands(c, now)):
			return 0, false
		}
	}
	if done := a.ended || a.Idle(); !done || needed {
		return from, needed && done
	}
	for _, c := range a.children {
		if c.parked && c.acked >= a.discarded {
			c.parked = false
			c.beginAgain()
		}
	}
	return from, false
}

// Waits reports whether a child waits for the others to be done.
func (a *Account) Waits(name string) bool {
	c := a.children[name]
	return c != nil && c.parked
}

// Waiting returns how many children wait for the others to be done.
func (a *Account) Waiting() (n int) {
	for _, c := range a.children {
		if c.parked {
			n++
		}
	}
	return n
}

// Serves reports whether a child can be sent what it needs next: the cache holds it, and
// the child does not wait. What is being sent cannot be discarded, so that a child that waits
// and is served all the same would hold up the others.
func (a *Account) Serves(name string) bool {
	c := a.children[name]
	return c != nil && !c.parked && c.sent >= a.discarded
}
