package relay_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// breaks has a child's link break every three seconds, and the child come again at once, while another takes all that comes. It returns
// when the rule for slow children ended that.
func (a *agent) breaks(child, other string, taking uint64) (after time.Duration, ended bool) {
	a.Helper()
	has := uint64(1)
	for passed := time.Duration(0); passed < time.Minute; passed += 500 * time.Millisecond {
		now := start.Add(passed)
		if passed%(3*time.Second) == 0 && passed > 0 {
			has = min(has+taking, a.Offset()/block)
			a.ack(child, has)
			a.Detach(child)
			if !a.Attach(child, has*block, now) {
				a.Fatal("the cache does not have what it lacks")
			}
		}
		if more := min(20, (a.Credit()-a.Offset())/block); more > 0 {
			a.receive(more)
			a.ack(other, a.Offset()/block)
		}
		if len(a.Slow(now)) > 0 || len(a.ParkBrakes(now)) > 0 {
			return passed, true
		}
	}
	return 0, false
}

// A member whose link breaks again and again has no more time than one whose link stays. That its link broke is nothing that counts against
// one that keeps up.
func TestReconnectingBuysNoTime(t *testing.T) {
	for name, tt := range map[string]struct {
		rules  relay.Rules
		within time.Duration
	}{
		"evicted by time":         {relay.Rules{Slow: relay.Evict, LagTime: 10 * time.Second}, 13 * time.Second},
		"evicted by time, in all": {relay.Rules{Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Evict, LagTime: 10 * time.Second}, 13 * time.Second},
		"paced above a floor":     {relay.Rules{Slow: relay.Pace, FloorRate: block}, 7 * time.Second},
		"detached":                {relay.Rules{Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Detach}, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for taking, slow := range map[uint64]bool{0: true, 1: true, 1000: false} {
				a := newAgent(t, tt.rules, 1000*block, "fast", "breaks")
				a.receive(1)
				a.ack("fast", 1)
				a.ack("breaks", 1)
				after, ended := a.breaks("breaks", "fast", taking)
				if ended != slow || after > tt.within {
					t.Errorf("it takes %d packets in three seconds: ended %t, after %v", taking, ended, after)
				}
			}
		})
	}
}

// A child that lost its place, or has never come, has its time from when it comes.
func TestWhoIsServedAgainHasItsTimeAgain(t *testing.T) {
	a := newAgent(t, relay.Rules{Slow: relay.Evict, LagTime: 10 * time.Second}, 100*block, "waits")
	a.receive(20)
	a.Slow(start)
	a.Park("waits")
	later := start.Add(time.Minute)
	if !a.Attach("waits", 0, later) {
		t.Fatal("the cache does not have what it lacks")
	}
	if slow := a.Slow(later.Add(time.Second)); len(slow) > 0 {
		t.Errorf("%v are given up as they come", slow)
	}
	if slow := a.Slow(later.Add(11 * time.Second)); len(slow) == 0 {
		t.Error("it is not given up though it takes nothing")
	}
}

// Where the cache is full, a child that has come again has a moment, however long it was away: what it is sent is under way.
func TestWhoComesAgainHasAMoment(t *testing.T) {
	a := newAgent(t, relay.Rules{Slow: relay.Detach}, 20*block, "fast", "breaks")
	a.receive(20)
	a.ack("fast", 20)
	a.ParkSlowest(start)
	a.Detach("breaks")
	a.Attach("breaks", 0, start.Add(200*time.Millisecond))
	if parked := a.ParkSlowest(start.Add(400 * time.Millisecond)); len(parked) > 0 {
		t.Errorf("%v lose their place at once", parked)
	}
	if parked := a.ParkSlowest(start.Add(500 * time.Millisecond)); len(parked) == 0 {
		t.Error("it keeps its place though it takes nothing")
	}
}

// A member that everybody was away with, as where the agent's own link was, is judged by what it does from then on: the time before says nothing
// of it.
func TestWhoWasAwayWithAllIsJudgedAnew(t *testing.T) {
	for how, comesBack := range map[string]func(*agent){
		"the agent has it again": func(a *agent) { a.Restart(8 * block); a.Reserve(1000*block, 1000*block) },
		"all are pardoned":       func(a *agent) { a.Pardon() },
		"the link was away":      func(*agent) {},
	} {
		a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Detach}, 1000*block, "fast", "far")
		a.receive(20)
		a.ack("fast", 20)
		a.ParkBrakes(start)
		a.ack("far", 8)
		a.Detach("far")
		a.Detach("fast")
		back := start.Add(30 * time.Second)
		comesBack(a)
		a.Attach("far", 8*block, back)
		a.Attach("fast", 20*block, back)
		a.receive((a.Credit() - a.Offset()) / block)
		a.ack("fast", a.Offset()/block)
		for passed := time.Duration(0); passed < 4*time.Second; passed += 50 * time.Millisecond {
			if parked := a.ParkBrakes(back.Add(passed)); len(parked) > 0 {
				t.Errorf("%s: %q wait after %v", how, parked, passed)
				break
			}
		}
	}
}
