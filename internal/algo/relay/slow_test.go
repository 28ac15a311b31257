package relay_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

func TestSlowChildIsGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		rules relay.Rules
		after time.Duration
		want  bool
	}{
		"within its time":       {relay.Rules{Slow: relay.Evict, LagTime: 10 * time.Second}, 9 * time.Second, false},
		"beyond its time":       {relay.Rules{Slow: relay.Evict, LagTime: 10 * time.Second}, 11 * time.Second, true},
		"too many bytes behind": {relay.Rules{Slow: relay.Evict, LagBytes: 5 * block}, time.Second, true},
		"few bytes behind":      {relay.Rules{Slow: relay.Evict, LagBytes: 50 * block}, time.Hour, false},
		"under the floor":       {relay.Rules{Slow: relay.Pace, FloorRate: block}, 6 * time.Second, true},
		"above the floor":       {relay.Rules{Slow: relay.Pace, FloorRate: block / 10}, 6 * time.Second, false},
		"paced without a floor": {relay.Rules{Slow: relay.Pace}, time.Hour, false},
		"detached":              {relay.Rules{Slow: relay.Detach}, time.Hour, false},
	} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hangs %t", name, hangs), func(t *testing.T) {
				a := newAgent(t, tt.rules, 100*block, "slow")
				a.receive(10)
				a.Slow(start) // from here on it is watched
				a.ack("slow", 1)
				if hangs {
					a.Detach("slow")
				}
				if got := len(a.Slow(start.Add(tt.after))) > 0; got != tt.want {
					t.Errorf("given up after %v: %t, want %t", tt.after, got, tt.want)
				}
			})
		}
	}
}

func TestChildThatKeepsUpIsNeverGivenUp(t *testing.T) {
	a := newAgent(t, relay.Rules{Slow: relay.Evict, LagTime: 10 * time.Second}, 1000*block, "Rx1")
	for i := range uint64(100) {
		a.receive(2)
		a.ack("Rx1", 2*i)
		if slow := a.Slow(start.Add(time.Duration(i) * 5 * time.Second)); len(slow) > 0 {
			t.Fatalf("given up after %d steps, though it was always one step behind", i)
		}
	}
}

// What a child lacked when it came is not its fault: it is given up only if it falls further behind, or does not catch up.
func TestLatecomerIsNotSlow(t *testing.T) {
	evict := relay.Rules{Slow: relay.Evict, LagBytes: 5 * block, LagTime: 10 * time.Second}
	for name, tt := range map[string]struct {
		came, got uint64 // blocks in a step of 6 s
		want      bool
	}{
		"gains":                 {1, 2, false},
		"falls further behind":  {3, 1, true},
		"stands still":          {0, 0, true},
		"is as fast as it goes": {1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, evict, 1000*block)
			a.receive(100)
			a.Expect([]string{"late"})
			a.Attach("late", 0, start)
			var slow []string
			for step := range uint64(6) {
				a.receive(tt.came)
				if tt.got > 0 {
					a.ack("late", tt.got*(step+1))
				}
				slow = append(slow, a.Slow(start.Add(time.Duration(step+1)*6*time.Second))...)
			}
			if got := len(slow) > 0; got != tt.want {
				t.Errorf("given up: %t, want %t", got, tt.want)
			}
		})
	}
}

// A child is not to blame for the time in which it waited for the others, nor for what it lacks after that. From then on
// it is treated as any other.
func TestWhoWaitedIsNotSlow(t *testing.T) {
	for name, rules := range map[string]relay.Rules{
		"evicted by time":         {Slow: relay.Evict, LagTime: 10 * time.Second},
		"evicted by bytes":        {Slow: relay.Evict, LagBytes: 5 * block},
		"paced above a floor":     {Slow: relay.Pace, FloorRate: block / 10},
		"evicted by time, in all": {Mode: relay.EndToEnd, Window: 100 * block, Slow: relay.Evict, LagTime: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, rules, 20*block, "first")
			a.length = 40 * block
			a.receive(20)
			a.ack("first", 20)
			a.Discard(20*block, math.MaxUint64)
			a.settle()
			a.Expect([]string{"first", "late"})
			if served := a.Attach("late", 0, start); served {
				t.Fatal("it is served from what was discarded")
			}
			a.Park("late")
			a.receive(20)
			a.ack("first", 40)
			a.End()
			turn := start.Add(time.Minute)
			a.beginAgain()
			if slow := a.Slow(turn); len(slow) > 0 {
				t.Fatalf("%v are given up as their turn comes", slow)
			}
			a.ack("late", 2)
			a.receive(4)
			if slow := a.Slow(turn.Add(6 * time.Second)); len(slow) > 0 {
				t.Errorf("%v are given up in time", slow)
			}
			a.receive(8)
			if slow := a.Slow(turn.Add(time.Minute)); !slices.Equal(slow, []string{"late"}) {
				t.Errorf("%v are given up, want the one that stands still", slow)
			}
		})
	}
}

// given looks for slow children every half second, for so long, and returns when the first of a name was given up; zero if none was.
func (a *agent) given(name string, within time.Duration) time.Duration {
	for passed := time.Duration(0); passed <= within; passed += time.Second / 2 {
		if slices.Contains(a.Slow(start.Add(passed)), name) {
			return passed
		}
	}
	return 0
}

// leaveBehind has as many packets come as may, of which one child takes all and another the first.
func (a *agent) leaveBehind(first, other string) {
	a.Helper()
	a.Slow(start)
	a.receive(20)
	a.ack(first, 20)
	a.ack(other, 1)
	a.receive(1)
	a.ack(first, 21)
}

// End to end, an agent acknowledges nothing while a member below it hangs. Whoever feeds that member gives it up; the agents above it do not
// give up each other. One that takes nothing itself is given up by time, a little later than a member, even if its link has ended.
func TestAgentIsNotSlowForItsChildren(t *testing.T) {
	for name, rules := range map[string]relay.Rules{
		"by time":  {Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Evict, LagTime: 10 * time.Second},
		"by bytes": {Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Evict, LagBytes: 50 * block},
		"by floor": {Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Pace, FloorRate: block},
	} {
		t.Run(name, func(t *testing.T) {
			for _, takes := range []bool{true, false} {
				for _, breaks := range []bool{true, false} {
					a := newAgent(t, rules, 100*block, "Rx1", "SA2")
					a.Relays("SA2")
					a.leaveBehind("Rx1", "SA2")
					if takes {
						a.Sent("SA2", 21*block)
					}
					if breaks {
						a.Detach("SA2")
					}
					given := a.given("SA2", time.Minute)
					if want := !takes && rules.LagBytes == 0; (given > 0) != want { // where it would lag by bytes, it is not known why
						t.Errorf("takes %t, its link breaks %t: given up after %v", takes, breaks, given)
					}
					if !takes && given > 0 && given < 7*time.Second {
						t.Errorf("given up after %v, before a member would be", given)
					}
				}
			}
			a := newAgent(t, rules, 100*block, "Rx1", "hangs")
			a.leaveBehind("Rx1", "hangs")
			if given := a.given("hangs", time.Minute); given == 0 || given > 11*time.Second {
				t.Errorf("a member that hangs is given up after %v", given)
			}
		})
	}
}

// A child that hangs is given up by bytes, too, where it cannot fall so far behind: there is no room for so much, or the mode lets no more come.
// The others would wait for it for ever. So is one that takes a byte a second. One that goes on, or that nobody waits for, is not.
func TestWhoHangsIsGivenUpWithoutRoomToFallBehind(t *testing.T) {
	for name, tt := range map[string]struct {
		rules relay.Rules
		room  uint64
		came  uint64
		moves uint64 // bytes each second
		want  bool
	}{
		"no room":              {relay.Rules{Slow: relay.Evict, LagBytes: 50 * block}, 20 * block, 20, 0, true},
		"no room, it goes on":  {relay.Rules{Slow: relay.Evict, LagBytes: 50 * block}, 20 * block, 20, block, false},
		"no room, it drips":    {relay.Rules{Slow: relay.Evict, LagBytes: 50 * block}, 20 * block, 20, 1, true},
		"room":                 {relay.Rules{Slow: relay.Evict, LagBytes: 50 * block}, 100 * block, 20, 0, false},
		"the mode":             {relay.Rules{Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Evict, LagBytes: 50 * block}, 100 * block, 20, 0, true},
		"the mode, above":      {relay.Rules{Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Evict, LagBytes: 50 * block}, 100 * block, 10, 0, true},
		"the mode, it goes on": {relay.Rules{Mode: relay.EndToEnd, Window: 50 * block, Slow: relay.Evict, LagBytes: 50 * block}, 100 * block, 20, block, false},
		"the mode, it drips":   {relay.Rules{Mode: relay.EndToEnd, Window: 20 * block, Slow: relay.Evict, LagBytes: 50 * block}, 100 * block, 20, 1, true},
		"no room, a stream":    {relay.Rules{Stream: true, Slow: relay.Evict, LagBytes: 50 * block}, 20 * block, 20, 0, true},
		"no room, a long time": {relay.Rules{Slow: relay.Evict, LagTime: time.Hour}, 20 * block, 20, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, tt.rules, tt.room, "first", "hangs")
			a.receive(tt.came)
			a.ack("first", tt.came)
			var given []string
			for step := range uint64(18) {
				a.Sent("hangs", 20*block)
				if err := a.Acked("hangs", step*tt.moves); err != nil {
					t.Fatal(err)
				}
				now := start.Add(time.Duration(step) * time.Second)
				if slow := a.Slow(now); len(slow) > 0 && step < 5 {
					t.Fatalf("%v given up after %d s", slow, step)
				} else if len(slow) > 0 {
					given = slow
				}
			}
			if got := slices.Equal(given, []string{"hangs"}); got != tt.want {
				t.Errorf("%v given up, want %t", given, tt.want)
			}
		})
	}
}

// Nobody is slow for the time in which the agent itself stood still.
func TestPardonedChildHasItsTimeAgain(t *testing.T) {
	for name, rules := range map[string]relay.Rules{
		"by time":  {Slow: relay.Evict, LagTime: 10 * time.Second},
		"by bytes": {Slow: relay.Evict, LagBytes: 50 * block},
		"by floor": {Slow: relay.Pace, FloorRate: block},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, rules, 20*block, "first", "waits")
			a.Slow(start)
			a.receive(20)
			a.ack("first", 20)
			a.ack("waits", 1)
			a.Slow(start.Add(time.Second))
			a.Pardon()
			if slow := a.Slow(start.Add(time.Minute)); len(slow) > 0 {
				t.Errorf("%v given up at once", slow)
			}
			a.Pardon()
			if slow := a.Slow(start.Add(2 * time.Minute)); len(slow) > 0 {
				t.Errorf("%v given up, pardoned again", slow)
			}
			if slow := a.Slow(start.Add(3 * time.Minute)); !slices.Equal(slow, []string{"waits"}) {
				t.Errorf("%v given up, want the one that takes nothing", slow)
			}
		})
	}
}
