package relay_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// detached returns an agent of a stream that has no more room, and one that has lost its place there with what it lacks.
func detached(t *testing.T, mode relay.Mode) *agent {
	a := newAgent(t, relay.Rules{Mode: mode, Window: 4 * block, Slow: relay.Detach, Stream: true}, 4*block, "fast", "slow")
	a.receive(4)
	a.ack("fast", 4)
	a.ack("slow", 1)
	a.ParkSlowest(start)
	if parked := a.ParkSlowest(start.Add(time.Second)); !slices.Equal(parked, []string{"slow"}) {
		t.Fatalf("%v are parked, want the slow one", parked)
	}
	a.Discard(4*block, math.MaxUint64)
	a.settle()
	return a
}

// A stream may never end, and its sender waits for who lacks what it keeps: who waits for the others goes on when they have
// had what there is for a while.
func TestWhoWaitsForAStreamGoesOnInALull(t *testing.T) {
	for _, mode := range []relay.Mode{relay.Hop, relay.EndToEnd} {
		a := detached(t, mode)
		now := start.Add(time.Second)
		resumes := func(after time.Duration) bool {
			now = now.Add(after)
			from, needed := a.Resume(now)
			if needed && from != block {
				t.Errorf("it begins again from %d, want from where the slow one is", from)
			}
			return needed
		}
		if resumes(0) || resumes(time.Second) {
			t.Error("begun again at once: the others may go on meanwhile")
		}
		a.receive(1)
		if resumes(10*time.Second) || resumes(20*time.Second) {
			t.Error("begun again while the others lack something")
		}
		a.ack("fast", 5)
		if resumes(0) || !resumes(3*time.Second) {
			t.Error("it has to begin again when the others have all, and nothing comes")
		}
		a.Restart(block)
		a.settle()
		if !a.Serves("slow") || a.Waiting() > 0 {
			t.Error("the slow one still waits")
		}
	}
}

// Who waits and is not there is not begun again for: when it reads again, it comes.
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

// What the cache still has for who waits need not come again.
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

// Where it begins again for one, the others have been where it is, and wait for what comes after: it keeps its place for as long as it takes
// something, and loses it when it takes nothing for a while.
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

// Where the cache has room, and the mode lets no more come, somebody loses the place too who holds up others; but that
// takes longer than any path does.
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

// What can be had nowhere any more nobody waits for; it goes on from where those that are here need it.
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
