package delivery

import (
	"cmp"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

const (
	// UnknownPatience is how long a delivery goes on waiting for members that are not heard of once it waits for nobody else.
	UnknownPatience = 60 * time.Second
	// StuckPatience is how long nothing at all may move while somebody is in trouble.
	StuckPatience = 60 * time.Second
	// BusyPatience takes the place of StuckPatience where an agent of the delivery is feeding others, so that it may
	// only be overloaded, and where all is sealed and nobody reports trouble, so that somebody hangs.
	BusyPatience = 5 * StuckPatience
	// QueuePatience is how long a member may wait for its turn at its program. Agents keep what is sent to it meanwhile.
	QueuePatience = time.Hour
	// FinishPatience is how long a member that has all may say nothing of getting on before it has put that into its place: then its disk hangs.
	FinishPatience = 30 * time.Minute
	// SourcePatience is how long a sender that looks for the root of an object may neither read nor send: then the source's disk hangs.
	SourcePatience = 10 * time.Minute
	// AlonePatience is how long nobody at all may have got more where a member has reached no agent for StuckPatience: others may wait for it.
	AlonePatience = 15 * time.Second
	// HandoverPatience is how long what a sender has sealed may take to reach its
	// agent after the sender has gone: it may be in the network, or not reported yet.
	HandoverPatience = 5 * time.Second
)

// facts are what the outcome of a running delivery is decided by.
type facts struct {
	now       time.Time
	deadline  time.Time // zero if it has none
	groupGone bool

	senderGone time.Time // since when its session has ended; zero while it lives
	unclaimed  time.Time // since when its program might have told of the delivery; zero if it has
	tooLong    error     // a stream is longer than the group's policy allows
	readAt     time.Time // when the sender of an object last read or sent some of it; zero if it does not say
	stream     bool
	sealed     bool
	handedOver bool      // an agent has all that was sealed
	agentMoved time.Time // when an agent last got more

	moved     time.Time // when anybody last got more, or the delivery began
	trouble   bool      // somebody reports that it cannot go on
	full      string    // an agent whose disk has no room, if there is one
	unreached string    // the agent that the sender cannot reach, if it has sent nothing
	apart     string    // who could not reach whom, by the latest report of that; empty once anybody got more since
	connected bool      // somebody is connected to somebody
	minded    time.Time // since when somebody minds that nothing moves; zero while nobody does
	busy      bool      // an agent of the tree lately fed somebody, in any delivery

	members []memberFacts // those that were joined at the start
	late    []memberFacts // those that came later: the outcome does not wait for them
}

// memberFacts are what is known of a delivery at one member.
type memberFacts struct {
	name         string
	final        groupv1.ReceiptState // COMPLETE or FAILED; otherwise unspecified
	left         bool                 // it said goodbye
	expelled     bool
	unknownSince time.Time // its session expired; zero while it is joined
	aloneSince   time.Time // it reached no agent at the last attempt, nor since then; zero if it did
	hasAll       bool      // it has all that was sealed
	finishing    time.Time // since when it has all that was sealed, and has said nothing of getting on; zero if it lacks some, or is not heard of
	evicted      bool      // the agent that feeds it gave it up: as too slow, or because it lied
	queuedSince  time.Time // it waits for its turn at its program; zero if it does not
}

// waits reports whether the outcome waits for the member.
func (m memberFacts) waits() bool {
	return m.final == groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED
}

// isReached reports whether a member waits for more from an agent that it has reached.
func (m memberFacts) isReached() bool {
	return m.waits() && !m.hasAll && !m.left && !m.expelled && m.queuedSince.IsZero() && m.unknownSince.IsZero() && m.aloneSince.IsZero()
}

// verdict is what is decided of a delivery.
type verdict struct {
	failed map[string]failure // members that have now failed
	ended  bool               // the members without an end stay unknown
	reason string             // why it was ended before it was done
	detail string
	alone  bool      // some failed because they reached no agent: others may go on without them
	due    time.Time // when time alone may change the verdict; zero if never
}

type failure struct{ reason, detail string }

// decide says how a running delivery stands.
func decide(f facts) verdict {
	v := verdict{failed: make(map[string]failure)}
	if reason, detail := f.whole(&v); reason != "" {
		v.failAll(f.members, reason, detail)
		v.ended, v.reason, v.detail = true, reason, detail
		return v
	}
	f.each(&v)
	f.stuck(&v)
	f.outcome(&v)
	return v
}

// whole returns why the delivery ends for all who do not have it.
func (f facts) whole(v *verdict) (reason, detail string) {
	if f.groupGone {
		return Canceled, "the group was deleted"
	}
	if !f.deadline.IsZero() {
		if !f.now.Before(f.deadline) {
			return Deadline, "the delivery took longer than its deadline"
		}
		v.wait(f.deadline)
	}
	if !f.sealed && f.tooLong != nil {
		return Failed, f.tooLong.Error()
	}
	if !f.sealed && !f.unclaimed.IsZero() {
		// Its call may have failed where the delivery began all the same.
		until := f.unclaimed.Add(StuckPatience)
		if !f.now.Before(until) {
			return SenderLost, "the sender is joined, but has not sent, nor said anything of it, in " + StuckPatience.String()
		}
		v.wait(until)
	}
	if !f.sealed && !f.readAt.IsZero() && f.isOver(f.readAt, SourcePatience, v) {
		return Failed, "the sender has read nothing of its source in " + SourcePatience.String() + ": its disk may not answer"
	}
	if f.senderGone.IsZero() || f.sealed && f.handedOver {
		return "", ""
	}
	if f.sealed {
		patience := moment.Latest(f.senderGone, f.agentMoved).Add(HandoverPatience)
		if f.now.Before(patience) {
			v.wait(patience)
			return "", ""
		}
		return SenderLost, "the sender's session ended before an agent had all of it"
	}
	return SenderLost, "the sender's session ended before all was sent"
}

// each fails the members that cannot have it any more.
func (f facts) each(v *verdict) {
	slow := failure{Slow, "the agent that fed the member gave it up: it could not keep up as the delivery's policy asks, or claimed what it had not got (the agent's log says which)"}
	alone := failure{NoPath, "the member reached no agent at its data port for " + StuckPatience.String() + ", and nobody else got more for " + AlonePatience.String()}
	for _, m := range f.members {
		switch {
		case !m.waits():
		case m.left:
			v.failed[m.name] = failure{Left, "the member left its group"}
		case m.expelled:
			v.failed[m.name] = failure{Left, "the member's identity was revoked"}
		case m.evicted:
			v.failed[m.name] = slow
		case !m.queuedSince.IsZero():
			if f.isOver(m.queuedSince, QueuePatience, v) {
				v.failed[m.name] = hasNoTurn
			}
		case !m.finishing.IsZero():
			if f.isOver(m.finishing, FinishPatience, v) {
				v.failed[m.name] = cannotFinish
			}
		case f.isAlone(m, v):
			v.failed[m.name], v.alone = alone, true
		}
	}
	for _, m := range f.late { // one that leaves may come again
		switch {
		case !m.waits():
		case m.evicted:
			v.failed[m.name] = slow
		case f.isAlone(m, v):
			v.failed[m.name], v.alone = alone, true
		}
	}
}

// isOver reports whether a patience is over, and has the delivery looked at again when it will be.
func (f facts) isOver(since time.Time, patience time.Duration, v *verdict) bool {
	until := since.Add(patience)
	if f.now.Before(until) {
		v.wait(until)
		return false
	}
	return true
}

// cannotFinish is of a member whose disk does not answer when all has come.
var cannotFinish = failure{Slow, "the member has all, and has not put it into its place, nor said that it gets on, in " + FinishPatience.String() + ": its disk may not answer"}

// hasNoTurn is of a member whose program has let a delivery wait for too long: agents keep all of it meanwhile.
var hasNoTurn = failure{Slow, "the member's program receives so many deliveries at once, and this one had to wait for its turn for " + QueuePatience.String()}

// isAlone reports whether a member has reached no agent for long, where others have, and get no more either. They may wait for it: what a
// member lacks that never comes takes all room of a cache, or all that may be under way end to end. While others get on, it has time to
// find a way.
func (f facts) isAlone(m memberFacts, v *verdict) bool {
	if m.aloneSince.IsZero() || m.hasAll || !slices.ContainsFunc(f.members, memberFacts.isReached) && !slices.ContainsFunc(f.late, memberFacts.isReached) {
		return false
	}
	until := moment.Latest(m.aloneSince.Add(StuckPatience), f.moved.Add(AlonePatience))
	if f.now.Before(until) {
		v.wait(until)
		return false
	}
	return true
}

// stuck fails the members that wait for bytes while nothing moves at all. That counts while somebody minds: a node says that it cannot go on,
// nobody is connected, or the sender has gone (agents that have what it sent would go on). A sender that merely pauses fails nobody, nor does a
// member that takes a stream and pauses. A member that has all and checks it does not fail either, nor one that waits for its turn. Where a whole object is sealed and nobody
// says anything, somebody hangs.
func (f facts) stuck(v *verdict) {
	if v.alone {
		return // it is seen first whether the others get on now
	}
	patience := StuckPatience
	switch quiet := f.isQuiet(); {
	case quiet && (f.stream || !f.sealed):
		return
	case quiet, f.busy:
		patience = BusyPatience
	}
	if until := moment.Latest(f.moved, f.minded).Add(patience); f.now.Before(until) {
		v.wait(moment.Soonest(until, f.now.Add(StuckPatience))) // the agent may no longer be busy by then
		return
	}
	cause := failure{NoPath, "nothing came for " + patience.String() + ": no agent could feed the member"}
	switch {
	case f.unreached != "":
		cause = failure{NoPath, "nothing came for " + patience.String() + ": the sender could not reach agent " + f.unreached + " at its data port"}
	case f.full != "":
		cause = failure{NoRoom, "nothing came for " + patience.String() + ": the disk of agent " + f.full + " has no room for its cache"}
	case f.apart != "":
		cause.detail += "; " + f.apart + " at its data port"
	}
	for _, m := range f.members {
		if _, failed := v.failed[m.name]; m.waits() && !failed && !m.hasAll && m.queuedSince.IsZero() && m.unknownSince.IsZero() {
			v.failed[m.name] = cause
		}
	}
}

// isQuiet reports whether nobody minds that nothing moves: no node says that it cannot go on, somebody is connected, and the sender is there.
func (f facts) isQuiet() bool { return !f.trouble && f.connected && f.senderGone.IsZero() }

// unrest remembers since when somebody has minded that nothing moves. A quiet spell shorter than StuckPatience does not end it: whoever
// minds again within that time has minded all along.
type unrest struct {
	since time.Time
	quiet time.Time // since when nobody does; zero while somebody does
}

// look notes whether anybody minds now.
func (u *unrest) look(quiet bool, now time.Time) {
	if quiet {
		u.quiet = cmp.Or(u.quiet, now)
		return
	}
	if u.since.IsZero() || !u.quiet.IsZero() && now.Sub(u.quiet) >= StuckPatience {
		u.since = now
	}
	u.quiet = time.Time{}
}

// minded returns since when somebody minds; zero if nobody does now.
func (u *unrest) minded() time.Time {
	if !u.quiet.IsZero() {
		return time.Time{}
	}
	return u.since
}

// outcome ends the delivery when it has ended at all members, or when those at which it has not were not heard of for long.
func (f facts) outcome(v *verdict) {
	var unknown time.Time
	for _, m := range f.members {
		if _, failed := v.failed[m.name]; failed || !m.waits() {
			continue
		}
		if m.unknownSince.IsZero() {
			return // it is under way
		}
		unknown = moment.Latest(unknown, m.unknownSince.Add(UnknownPatience))
	}
	if f.now.Before(unknown) {
		v.wait(unknown)
		return
	}
	v.ended = true
}

// failAll fails all members that do not have it.
func (v *verdict) failAll(members []memberFacts, reason, detail string) {
	for _, m := range members {
		if m.waits() {
			v.failed[m.name] = failure{reason, detail}
		}
	}
}

// wait has the delivery looked at again at a time.
func (v *verdict) wait(until time.Time) { v.due = moment.Soonest(v.due, until) }

// stateOf returns the state of a delivery that has ended.
func stateOf(members, complete int) groupv1.DeliveryState {
	switch complete {
	case members:
		return groupv1.DeliveryState_DELIVERY_STATE_COMPLETE
	case 0:
		return groupv1.DeliveryState_DELIVERY_STATE_FAILED
	}
	return groupv1.DeliveryState_DELIVERY_STATE_PARTIAL
}
