package relay_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// room is how much room the agent of these tests has, and how much can be under way: more than may come in a lull.
const room = 400 * block

// detached returns the agent of a stream that has no more room. One child, "slow", has lost its place there, and the cache
// no longer has what it lacks.
func detached(t *testing.T, mode relay.Mode, others ...string) *agent {
	a := newAgent(t, relay.Rules{Mode: mode, Window: room, Slow: relay.Detach, Stream: true}, room, append(others, "fast", "slow")...)
	a.receive(400)
	for _, other := range append(others, "fast") {
		a.ack(other, 400)
	}
	a.ack("slow", 1)
	a.ParkSlowest(start)
	if parked := a.ParkSlowest(start.Add(time.Second)); !slices.Equal(parked, []string{"slow"}) {
		t.Fatalf("%v are parked, want the slow one", parked)
	}
	a.Discard(room, math.MaxUint64)
	a.settle()
	return a
}

// resumes does something each half second for a while, and reports whether the delivery begins again for the child that waits.
func (a *agent) resumes(from time.Time, span time.Duration, do func()) bool {
	a.Helper()
	for now := from; now.Before(from.Add(span)); now = now.Add(500 * time.Millisecond) {
		do()
		if from, needed := a.Resume(now); needed {
			if from != block {
				a.Errorf("it begins again from %d, want from where the slow one is", from)
			}
			return true
		}
	}
	return false
}

// wantResumed has the delivery begin again for the child that waits.
func (a *agent) wantResumed() {
	a.Helper()
	a.Restart(block)
	a.settle()
	if !a.Serves("slow") || a.Waiting() > 0 {
		a.Error("the slow one still waits")
	}
}

func nothing() {}

// A stream may never end, and its sender waits for members that lack what it keeps: a child that waits for the others goes on when
// they have had what there is for a while.
func TestWhoWaitsForAStreamGoesOnInALull(t *testing.T) {
	for _, mode := range []relay.Mode{relay.Hop, relay.EndToEnd} {
		a := detached(t, mode)
		if a.resumes(start, 2*time.Second, nothing) {
			t.Error("begun again at once: the others may go on meanwhile")
		}
		a.receive(200)
		has := uint64(400)
		if a.resumes(start.Add(time.Minute), 20*time.Second, func() { has++; a.ack("fast", has) }) {
			t.Error("begun again while the others lack something")
		}
		a.ack("fast", 600)
		if !a.resumes(start.Add(time.Hour), 3*time.Second, nothing) {
			t.Error("it has to begin again when the others have all, and nothing comes")
		}
		a.wantResumed()
	}
}

// A stream that flows has no lull, even if little is under way at each moment.
func TestStreamThatFlowsHasNoLull(t *testing.T) {
	a := detached(t, relay.Hop)
	has := uint64(400)
	flows := func() {
		a.ack("fast", has)
		a.Discard(room, math.MaxUint64)
		has += 40
		a.receive(40)
	}
	if a.resumes(start, time.Minute, flows) {
		t.Error("begun again: the others would get it as fast as the slow one")
	}
}

// A log to which something is added all the time has lulls, too, though something is always under way to a child that is far.
func TestWhoWaitsForALogIsNotKeptByWhoIsFar(t *testing.T) {
	a := detached(t, relay.Hop, "far")
	has := uint64(400)
	if !a.resumes(start, 4*time.Second, func() { a.ack("far", has); has++; a.receive(1); a.ack("fast", has) }) {
		t.Error("it waits for what is under way")
	}
	a.wantResumed()
}

// A child that takes nothing any more, because its reader pauses, may never do so again. A child that waits goes on without it, whether
// it lacks much or little, and also if the stream has ended or its sender waits.
func TestWhoWaitsIsNotKeptByWhoTakesNothing(t *testing.T) {
	for name, lacks := range map[string]uint64{"little": 1, "much": 100} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ended %t", name, ended), func(t *testing.T) {
				a := detached(t, relay.Hop, "hangs")
				a.receive(lacks)
				a.ack("fast", 400+lacks)
				if ended {
					a.End()
				}
				if lacks > 1 && a.resumes(start, 4*time.Second, nothing) {
					t.Error("begun again before it can be told that one takes nothing")
				}
				if !a.resumes(start.Add(4*time.Second), 6*time.Second, nothing) {
					t.Fatal("it waits for who takes nothing")
				}
				a.wantResumed()
			})
		}
	}
}

// A child that has just come, or gone on, has taken nothing either: it is given its time.
func TestWhoHasJustComeIsWaitedFor(t *testing.T) {
	a := detached(t, relay.Hop, "new")
	a.receive(100)
	a.ack("fast", 500)
	a.resumes(start, 4*time.Second, nothing)
	a.Detach("new")
	a.Attach("new", 400*block, start.Add(4*time.Second))
	if a.resumes(start.Add(4*time.Second), 4*time.Second, nothing) {
		t.Error("begun again before it could take anything")
	}
}

// The delivery does not begin again for a child that waits and is not there: when it reads again, it comes.
func TestNothingBeginsAgainForWhoIsNotThere(t *testing.T) {
	a := detached(t, relay.Hop)
	a.Detach("slow")
	for i := range 10 {
		if _, needed := a.Resume(start.Add(time.Duration(i) * time.Second)); needed {
			t.Fatal("begun again for nobody")
		}
	}
	if served := a.Attach("slow", block, start); served || !a.Waits("slow") {
		t.Fatal("it is to wait for the others")
	}
	a.Resume(start.Add(time.Minute))
	if from, needed := a.Resume(start.Add(2 * time.Minute)); !needed || from != block {
		t.Errorf("begin again: %t from %d", needed, from)
	}
}

// live is a stream to which a block is added each half second, and of which what has to come again comes a hundred times as fast.
type live struct {
	*agent
	now    time.Time
	source uint64 // blocks that there are
	has    uint64 // blocks that "fast" has
	begun  int    // how often it has begun again
}

// step has half a second pass, in which "slow" takes so many blocks if it is served.
func (l *live) step(takes uint64, slow *uint64) {
	l.Helper()
	l.now = l.now.Add(500 * time.Millisecond)
	l.source++
	at := l.Offset() / block
	l.Arrived(min(at+100, l.source, l.Credit()/block) * block)
	if at = l.Offset() / block; at > l.has {
		l.has = at
		l.ack("fast", at)
	}
	if more := min(*slow+takes, at); takes > 0 && l.Serves("slow") && more > *slow {
		*slow = more
		l.ack("slow", more)
	}
	l.Discard(room, math.MaxUint64)
	l.settle()
	l.ParkBrakes(l.now)
	l.settle()
	if from, needed := l.Resume(l.now); needed {
		l.begun++
		l.Restart(from)
		l.settle()
	}
}

// behind returns a stream of 2000 blocks of which "slow" has one, and waits.
func behind(t *testing.T) *live {
	l := &live{agent: detached(t, relay.Hop), now: start.Add(time.Minute), source: 2000, has: 400}
	for l.has < l.source {
		at := min(l.has+400, l.source)
		l.receive(at - l.has)
		l.has = at
		l.ack("fast", at)
		l.Discard(room, math.MaxUint64)
		l.settle()
	}
	return l
}

// If a child that waits takes nothing when the delivery begins again for it, as an agent whose cache is full and whose only reader
// pauses, the delivery does not begin again for it before it is heard of.
func TestStreamBeginsAgainOnceForWhoTakesNothing(t *testing.T) {
	l, slow := behind(t), uint64(1)
	for second := range 60 {
		l.step(0, &slow)
		l.step(0, &slow)
		if second >= 40 && l.has != l.source {
			t.Fatalf("after %d s the other has %d of %d blocks", second, l.has, l.source)
		}
	}
	if l.begun > 1 {
		t.Errorf("begun again %d times for who takes nothing", l.begun)
	}
	l.Ready("slow") // its reader goes on
	for begun := l.begun; l.begun == begun; {
		if l.step(0, &slow); l.now.After(start.Add(time.Hour)) {
			t.Fatal("it is not begun again for who could take more")
		}
	}
	if !l.Serves("slow") {
		t.Error("the slow one still waits")
	}
}

// While what the others have comes again there is no lull: they wait for what follows it.
func TestWhatComesAgainIsNoLull(t *testing.T) {
	l, slow := behind(t), uint64(1)
	had, takes := l.has, uint64(0)
	for range 600 {
		begun, has := l.begun, slow
		l.Ready("slow")
		l.step(takes, &slow)
		switch {
		case slow > has:
			takes = 0 // it takes a block each time, and could take more only later
		case l.begun > begun && begun > 0 && l.has <= had:
			t.Fatal("begun again before the other had anything new")
		case l.begun > begun:
			had, takes = l.has, 1
		}
	}
	if l.begun < 2 {
		t.Error("the slow one is not begun again for")
	}
}

// What the cache still has for a child that waits need not come again.
func TestWhoWaitsGoesOnFromTheCache(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach, Stream: true}, 4*block, "fast", "slow")
	a.receive(4)
	a.ack("fast", 4)
	a.ParkSlowest(start)
	a.ParkSlowest(start.Add(time.Second))
	a.Resume(start.Add(time.Second))
	if _, needed := a.Resume(start.Add(time.Minute)); needed || !a.Serves("slow") {
		t.Errorf("begin again: %t, serves: %t", needed, a.Serves("slow"))
	}
}

// If a delivery begins again for one child, the others have had those bytes, and wait for what comes after them. The child keeps its place
// as long as it takes something, and loses it when it takes no more than a byte for a while.
func TestWhoIsBegunAgainForHoldsUpNobodyForGood(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach, Stream: true}, 4*block, "ahead", "behind")
	a.Attach("ahead", 100*block, start)
	a.receive(4)
	now := start
	parked := func() bool {
		now = now.Add(4 * time.Second)
		return len(a.ParkSlowest(now)) > 0
	}
	for packets := uint64(1); packets < 4; packets++ {
		a.ack("behind", packets)
		if parked() {
			t.Fatal("it loses its place, though it takes what there is")
		}
	}
	parked()
	a.Sent("behind", 4*block)
	if err := a.Acked("behind", 3*block+1); err != nil {
		t.Fatal(err)
	}
	if !parked() {
		t.Error("it keeps its place, though it takes as good as nothing")
	}
}

// If the cache has room but the mode lets no more come, a child that holds up others loses its place, too; but only
// after longer than any path takes.
func TestWhoBrakesLosesItsPlace(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: 4 * block, Slow: relay.Detach}, 100*block, "fast", "slow")
	a.receive(4)
	a.ack("fast", 4)
	for i := range 3 {
		if parked := a.ParkBrakes(start.Add(time.Duration(i) * time.Second)); len(parked) > 0 {
			t.Fatalf("%v are parked after %d s", parked, i)
		}
	}
	if parked := a.ParkBrakes(start.Add(6 * time.Second)); !slices.Equal(parked, []string{"slow"}) {
		t.Fatalf("%v are parked, want the slow one", parked)
	}
	a.settle()
	if a.Stalled() {
		t.Error("no more may come all the same")
	}
}

// Nobody waits for what can be had nowhere any more; the delivery goes on from where the attached children need it.
func TestWhatIsGoneIsNotWaitedFor(t *testing.T) {
	a := relay.New(relay.Rules{Mode: relay.EndToEnd, Window: 16 * block, Stream: true})
	a.Expect([]string{"here", "new", "away"})
	a.Attach("here", 8*block, start)
	a.Attach("new", 0, start)
	if from := a.Forgo(4 * block); from != 4*block {
		t.Errorf("it goes on from %d, want from what is kept: one lacks all", from)
	}
	a.Detach("new")
	if from := a.Forgo(4 * block); from != 8*block {
		t.Errorf("it goes on from %d, want from where the one is that is here", from)
	}
	a.Restart(8 * block)
	if ack := a.Ack(); ack != 4*block {
		t.Errorf("%d bytes are acknowledged, want what nobody can have", ack)
	}
}

// If a child needs what the cache no longer has, the parent is asked for that first: the child does not count as slow meanwhile, and is
// neither evicted nor detached. If nobody has it, nobody waits for it, and the others get what the cache has for them.
func TestWhoLacksWhatIsNotCachedIsAskedFor(t *testing.T) {
	for name, rules := range map[string]relay.Rules{
		"detached": {Stream: true, Slow: relay.Detach},
		"evicted":  {Stream: true, Slow: relay.Evict, LagBytes: 2 * block},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, rules, 4*block, "fast", "slow", "new")
			a.receive(4)
			for child, has := range map[string]uint64{"fast": 4, "slow": 3, "new": 4} {
				a.ack(child, has)
			}
			a.Discard(2*block, math.MaxUint64)
			a.settle()
			a.receive(2)
			a.ack("fast", 6)
			if _, some := a.Lacks(); some {
				t.Error("somebody lacks what the cache has not")
			}
			a.Detach("new")
			if a.Attach("new", block, start) {
				t.Fatal("it is served from what was discarded")
			}
			if from, some := a.Lacks(); !some || from != block {
				t.Errorf("asked for is %t, from %d, want from where it is", some, from)
			}
			for i := range 4 {
				now := start.Add(time.Duration(i) * time.Second)
				if slow := append(a.Slow(now), a.ParkSlowest(now)...); slices.Contains(slow, "new") {
					t.Fatal("it is slow before it could take anything")
				}
			}
			a.Exclude(10 * block)
			if from, some := a.Lacks(); some {
				t.Errorf("asked for is what nobody has, from %d", from)
			}
			if upTo := a.Discard(10*block, math.MaxUint64); upTo > 3*block && !a.Waits("slow") {
				t.Errorf("all before %d is given back, which the slow one lacks", upTo)
			}
		})
	}
}

// What all members have that are below an agent is told hop by hop, so that a sender can give it back without managers. It includes who waits for
// the others, and goes back when a member comes from another agent.
func TestWhatAllMembersBelowHave(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach, Stream: true}, room, "agent", "member")
	a.Relays("agent")
	a.receive(10)
	want := func(packets uint64, why string) {
		t.Helper()
		if got := a.Below(); got != packets*block {
			t.Errorf("%s: all members have %d, want %d packets", why, got, packets)
		}
	}
	for _, child := range []string{"agent", "member"} {
		a.Sent(child, 10*block)
		a.ack(child, 10)
	}
	want(0, "an agent has got all, and has said nothing of its members")
	a.Passed("agent", 7*block)
	want(7, "the members of the agent have a part")
	a.Passed("agent", 4*block)
	want(4, "a member has come to the agent that has less")
	a.Passed("agent", 30*block)
	want(10, "an agent claims more than it was sent")
	a.Expect([]string{"agent", "member", "third"})
	want(0, "a member is on its way")
	a.Attach("third", 3*block, start)
	want(3, "it has a part")
	a.Park("third")
	want(3, "it waits for the others")
	a.Expect([]string{"agent", "member"})
	want(10, "it has gone to another agent")
}

// End to end the agents' acknowledgements are what all members have.
func TestEndToEndAcknowledgementsAreOfMembers(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: room, Stream: true}, room, "agent", "member")
	a.Relays("agent")
	a.receive(10)
	a.ack("agent", 6)
	a.ack("member", 9)
	if got := a.Below(); got != 6*block {
		t.Errorf("all members have %d, want 6 packets", got)
	}
}
