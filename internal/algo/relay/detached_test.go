package relay_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// A child that lost its place and comes anew goes on waiting, if the cache no longer has what it needs.
func TestDetachedChildComesAgainAndWaits(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: 4 * block, Slow: relay.Detach}, 4*block, "fast", "slow")
	a.receive(4)
	a.ack("fast", 4)
	a.ParkSlowest(start)
	a.ParkSlowest(start.Add(time.Second))
	if served := a.Attach("slow", 0, start); !served || a.Waits("slow") {
		t.Errorf("served: %t, waits: %t; the cache has what it needs", served, a.Waits("slow"))
	}
	a.ParkSlowest(start)
	a.ParkSlowest(start.Add(time.Second))
	a.Discard(4*block, math.MaxUint64)
	if served := a.Attach("slow", 0, start); served || !a.Waits("slow") {
		t.Errorf("served: %t, waits: %t; the cache has nothing that it needs", served, a.Waits("slow"))
	}
}

// Two children lost their place, one of them because its machine was busy for a moment. When the delivery begins again
// for both, that one is far beyond what comes, and waits for what comes after: so the slow one loses its place again.
func TestDetachedChildHoldsUpNoOtherThatWasDetached(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "fast", "busy", "slow")
	a.length = 16 * block
	a.receive(4)
	a.ack("fast", 4)
	a.ack("busy", 1)
	a.ParkSlowest(start)
	if parked := a.ParkSlowest(start.Add(time.Second)); !slices.Equal(parked, []string{"busy", "slow"}) {
		t.Fatalf("%v are parked, want both that are behind", parked)
	}
	for upTo := uint64(8); upTo <= 16; upTo += 4 {
		a.Discard(4*block, math.MaxUint64)
		a.settle()
		a.receive(4)
		a.ack("fast", upTo)
	}
	a.ack("busy", 8) // this was on its way
	a.End()
	a.beginAgain()
	a.ParkSlowest(start.Add(2 * time.Second))
	if parked := a.ParkSlowest(start.Add(3 * time.Second)); !slices.Equal(parked, []string{"slow"}) {
		t.Errorf("%v are parked, want the slow one", parked)
	}
}

// What every child has already does not have to come again.
func TestChildrenThatAreFarAhead(t *testing.T) {
	const far = 8 << 20
	a := newAgent(t, relay.Rules{Mode: relay.Hop}, 4*far, "Rx1")
	a.Expect([]string{"Rx1", "Rx2"})
	a.Attach("Rx1", 2*far, start)
	if _, ahead := a.Ahead(4 << 20); ahead {
		t.Error("one has not come, and may need all")
	}
	a.Attach("Rx2", far, start)
	from, ahead := a.Ahead(4 << 20)
	if !ahead || from != far {
		t.Fatalf("all are ahead: %t, from %d, want from %d", ahead, from, far)
	}
	a.Restart(from)
	if _, ahead := a.Ahead(4 << 20); ahead {
		t.Error("nobody is ahead of where it begins")
	}
}

// endBehindDetached has the last of five blocks come, and the fast child have all, while a slow one waits that has the first.
func (a *agent) endBehindDetached() {
	a.ack("slow", 1) // this was on its way
	a.Discard(block, math.MaxUint64)
	a.settle()
	a.receive(1)
	a.ack("fast", 5)
	a.End()
}

// A child that waits is not served, though the cache may still hold what it needs: what is being
// read for it cannot be discarded, and the others would wait for that.
func TestDetachedChildDoesNotHoldTheCache(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "fast", "slow")
	a.length = 5 * block
	a.receive(4)
	a.ack("fast", 4)
	a.ParkSlowest(start)
	a.ParkSlowest(start.Add(time.Second))
	if a.Discard(block, 0); a.Serves("slow") {
		t.Error("the one that waits is served")
	}
	a.endBehindDetached()
	if _, needed := a.Unpark(start); needed || !a.Serves("slow") {
		t.Errorf("begin again: %t, serves: %t; the cache holds all that the slow one needs", needed, a.Serves("slow"))
	}
}

// A detached child waits for the others to be done, but not for one that takes nothing of the little that it lacks, because its
// disk hangs: that may be for ever, and holds up nobody else.
func TestDetachedChildDoesNotWaitForOneThatHangs(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "fast", "slow", "hangs")
	a.length = 5 * block
	a.receive(4)
	a.ack("fast", 4)
	a.ack("hangs", 4)
	a.ParkSlowest(start)
	a.ParkSlowest(start.Add(time.Second))
	a.endBehindDetached()
	for second := range 6 {
		_, _ = a.Unpark(start.Add(time.Duration(second+1) * time.Second))
		if served := a.Serves("slow"); served != (second == 5) {
			t.Fatalf("after %d s that others have taken nothing, who waited is served: %t", second, served)
		}
	}
}

// hung returns an agent of an object of 20 blocks that begins again for a slow child, which has one block: another has all, and a third
// takes nothing of the two that it lacks.
func hung(t *testing.T) (a *agent, now time.Time) {
	a = newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "fast", "slow", "hangs")
	a.length = 20 * block
	a.receive(4)
	a.ack("fast", 4)
	a.ack("hangs", 4)
	a.ack("slow", 1)
	a.ParkSlowest(start)
	a.ParkSlowest(start.Add(time.Second))
	for upTo := uint64(5); upTo <= 20; upTo++ {
		a.Discard(block, math.MaxUint64)
		a.settle()
		a.receive(1)
		a.ack("fast", upTo)
		a.ack("hangs", min(upTo, 18))
	}
	a.End()
	for second := range 6 {
		now = start.Add(time.Duration(second) * time.Second)
		if from, needed := a.Unpark(now); needed {
			if from != block {
				t.Fatalf("it begins again from %d, want from where the slow one is", from)
			}
			return a, now
		}
	}
	t.Fatal("the slow one waits for the one that hangs")
	return nil, now
}

// A slow child for which the delivery begins again does not lose its place to another that hangs: a child that takes nothing is not held
// up, whether its link has ended meanwhile or not.
func TestOneThatHangsIsHeldUpByNobody(t *testing.T) {
	for name, leaves := range map[string]bool{"its link stays": false, "its link ends": true} {
		t.Run(name, func(t *testing.T) {
			a, now := hung(t)
			if leaves { // as when something of what the cache had is being read for it
				a.Detach("hangs")
			}
			a.Restart(block)
			for upTo := uint64(1); upTo <= 20; {
				a.settle()
				if more := min(a.Credit(), a.length)/block - a.Offset()/block; more > 0 {
					a.receive(more)
				}
				if a.Offset() == a.length {
					a.End()
				}
				now = now.Add(200 * time.Millisecond)
				if parked := a.ParkSlowest(now); len(parked) > 0 {
					t.Fatalf("%v are parked with %d of 20 blocks", parked, upTo)
				}
				a.ack("slow", upTo)
				upTo++
				a.Discard(block, math.MaxUint64)
			}
		})
	}
}

// A child that lost its place does not wait for another that hung, and whose link has ended since.
func TestDetachedChildDoesNotWaitForOneThatHungAndIsGone(t *testing.T) {
	a, now := hung(t)
	a.Detach("hangs")
	a.Restart(block)
	a.Park("slow")
	for a.settle(); a.Offset() < a.length; a.settle() {
		a.receive(min(a.Credit(), a.length)/block - a.Offset()/block)
		a.Discard(block, math.MaxUint64)
	}
	a.End()
	if from, needed := a.Unpark(now.Add(time.Second)); !needed || from != block {
		t.Errorf("it begins again: %t, from %d, want from where the slow one is", needed, from)
	}
	a.Attach("hangs", 18*block, now.Add(2*time.Second))
	if _, needed := a.Unpark(now.Add(3 * time.Second)); needed {
		t.Error("it begins again before the one that has come could take anything")
	}
}

// If a child has taken nothing since the delivery began again for it, and loses its place once more, the delivery does not begin again for
// it before it is heard of, however soon another was held up.
func TestNothingBeginsAgainTwiceForOneThatTakesNothing(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "fast", "hangs")
	a.length = 8 * block
	wantParked := func(now time.Time) {
		t.Helper()
		a.ParkSlowest(now)
		if parked := a.ParkSlowest(now.Add(time.Second)); !slices.Equal(parked, []string{"hangs"}) {
			t.Fatalf("%v are parked, want the one that hangs", parked)
		}
		a.Discard(4*block, math.MaxUint64)
		a.settle()
	}
	a.receive(4)
	a.ack("fast", 4)
	wantParked(start)
	a.receive(4)
	a.ack("fast", 8)
	a.End()
	a.beginAgain()
	a.Expect([]string{"fast", "hangs", "new"})
	a.Attach("new", 4*block, start)
	wantParked(start.Add(2 * time.Second))
	a.receive(4)
	a.ack("new", 8)
	a.End()
	if from, needed := a.Unpark(start.Add(4 * time.Second)); needed {
		t.Errorf("it begins again from %d for one that hangs", from)
	}
	a.Attach("hangs", 0, start.Add(5*time.Second))
	if _, needed := a.Unpark(start.Add(6 * time.Second)); !needed {
		t.Error("it does not begin again for one that has come again")
	}
}

// Where bytes come fast, every child but the first is behind by a whole cache now and then: if it gets on, it keeps its place.
func TestNobodyIsParkedWhoGetsOn(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "first", "second")
	a.length = 400 * block
	for i := uint64(4); i <= 40; i += 4 {
		a.receive(4)
		a.ack("first", i)
		if parked := a.ParkSlowest(start.Add(time.Duration(i) * time.Second)); len(parked) > 0 {
			t.Fatalf("%v are parked", parked)
		}
		a.ack("second", i)
		a.Discard(4*block, math.MaxUint64)
		a.settle()
	}
}

// Where the cache is smaller than a grain it is full until the last child has everything; one child is always the last.
func TestNobodyIsParkedForBeingTheLast(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach, Grain: 8 * block}, 4*block, "first", "last")
	a.length = 400 * block
	for i := uint64(4); i <= 40; i += 4 {
		now := start.Add(time.Duration(i) * 30 * time.Millisecond)
		a.receive(4)
		a.ack("first", i)
		if parked := a.ParkSlowest(now); len(parked) > 0 {
			t.Fatalf("%v are parked", parked)
		}
		a.ack("last", i)
		if parked := a.ParkSlowest(now); len(parked) > 0 {
			t.Fatalf("%v are parked, and all have all", parked)
		}
		a.DiscardAll(math.MaxUint64)
		a.settle()
	}
}

func TestNobodyIsParkedWhileAllAreSlow(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "Rx1", "Rx2")
	a.receive(4)
	a.ack("Rx1", 1)
	a.ParkSlowest(start)
	if parked := a.ParkSlowest(start.Add(time.Second)); len(parked) > 0 {
		t.Errorf("%v are parked", parked)
	}
}

func ExampleAccount() {
	a := relay.New(relay.Rules{Mode: relay.EndToEnd, Window: 1 << 20})
	a.Expect([]string{"node-1"})
	a.Attach("node-1", 0, start)
	a.Reserve(64<<20, 10<<20)
	a.Arrived(1 << 20)
	fmt.Println(a.Ack(), a.Credit(), a.Cached())
	// Output: 0 1048576 1048576
}
