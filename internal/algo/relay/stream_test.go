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

// resumes does something every half second for a while, and reports whether the delivery begins again for the child that waits.
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

// wantResumed makes the delivery begin again, and checks that the child that waited is served.
func (a *agent) wantResumed() {
	a.Helper()
	a.Restart(block)
	a.settle()
	if !a.Serves("slow") || a.Waiting() > 0 {
		a.Error("the slow one still waits")
	}
}

func nothing() {}

// A stream may never end, and its sender waits for children that lack what it keeps. So a child that waits for the others
// goes on when they have had what there is for a while.
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

// A log that is added to all the time has lulls, too, though something is always under way to a child that is far away.
func TestWhoWaitsForALogIsNotKeptByWhoIsFar(t *testing.T) {
	a := detached(t, relay.Hop, "far")
	has := uint64(400)
	if !a.resumes(start, 4*time.Second, func() { a.ack("far", has); has++; a.receive(1); a.ack("fast", has) }) {
		t.Error("it waits for what is under way")
	}
	a.wantResumed()
}

// A child that takes nothing any more, for instance because its reader pauses, may never take anything again. The child that waits goes
// on without it, whether it lacks much or little, and also if the stream has ended or its sender waits.
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

// A child that has just come, or gone on, has taken nothing either: it is given time.
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

// A delivery does not begin again for a child that waits but is not here: that comes when it reads again.
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

// Bytes that the cache still has for a child that waits need not come again.
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
// as long as it takes something, and loses it when it takes nothing for a while.
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
	if parked(); !parked() {
		t.Error("it keeps its place, though it takes nothing")
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

// Nobody waits for bytes that nobody has any more; the delivery goes on from where the children that are here need it.
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

// Bytes that a child needs and the cache no longer has are asked for first. Meanwhile the child does not count as slow, whether the rule
// is Evict or Detach. If nobody has the bytes it is not waited for, and the others get what the cache has for them.
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
