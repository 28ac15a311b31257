package relay_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// A child that is nearly as fast as the others does not lose its place, however long they take for what the cache has room for: one
// delivery of many has a small share, and slow links. One that is much slower does, before it costs the others as much time again.
func TestChildrenOfNearlyOneSpeed(t *testing.T) {
	for _, room := range []time.Duration{time.Second / 10, 2 * time.Second, 10 * time.Second, 70 * time.Second} {
		for _, tt := range []struct {
			slowest float64 // of the speed of the others
			wait    bool
		}{{0.95, false}, {0.85, false}, {0.5, room > time.Second/2}, {0.1, true}} {
			t.Run(fmt.Sprintf("room for %v, the slowest at %g", room, tt.slowest), func(t *testing.T) {
				const size = 1000 * block
				a := newAgent(t, relay.Rules{Slow: relay.Detach, Grain: size}, size, "a", "b", "c", "slowest")
				a.length = 5 * size
				parked, took := a.pass(float64(size)/room.Seconds(), tt.slowest, 100*room)
				if tt.wait != slices.Equal(parked, []string{"slowest"}) {
					t.Errorf("%v lose their places, want the slowest: %t", parked, tt.wait)
				}
				if most := 7 * room; took > most+time.Second {
					t.Errorf("the others have it after %v, want %v at most", took, most)
				}
			})
		}
	}
}

// pass has a parent bring whatever there is room for, and the children take it, and returns who lost its place, and when those that did
// not had everything.
func (a *agent) pass(speed, slowest float64, within time.Duration) (parked []string, took time.Duration) {
	a.Helper()
	const step = 20 * time.Millisecond
	got := map[string]float64{"a": 0, "b": 0, "c": 0, "slowest": 0}
	for ; took < within; took += step {
		now := start.Add(took)
		if a.Stalled() {
			a.DiscardAll(math.MaxUint64)
			parked = append(parked, a.ParkSlowest(now)...)
			a.DiscardAll(math.MaxUint64)
		}
		a.settle()
		a.Arrived(min(a.Credit(), a.length))
		if took%(500*time.Millisecond) == 0 {
			a.Slow(now)
		}
		least := float64(a.length)
		for name := range got {
			if a.Waits(name) {
				continue
			}
			rate := speed
			if name == "slowest" {
				rate *= slowest
			}
			got[name] = min(got[name]+rate*step.Seconds(), float64(a.Offset()))
			least = min(least, got[name])
			a.Sent(name, uint64(got[name]))
			if err := a.Acked(name, uint64(got[name])); err != nil {
				a.Fatal(err)
			}
		}
		if least == float64(a.length) {
			return parked, took
		}
	}
	a.Fatalf("not done after %v", within)
	return nil, 0
}
