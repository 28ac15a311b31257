package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
)

// C35: loss in bursts of 100 packets in the mean, 5 % in all, at one of several members: all have everything, and nobody is detached
// who was not to be.
func TestBurstsDetachNobody(t *testing.T) {
	for seed := range uint64(20) {
		n := begin(t, setting{length: 20e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 40 + seed, cable: func(i int) cable {
			c := lan(mbit100)(i)
			if i == 2 {
				c.burst = burst{start: 0.05 / 100, length: 100}
			}
			return c
		}})
		isDetached := false
		for range 2000 {
			n.run(10 * time.Millisecond)
			isDetached = isDetached || n.sender.Member(2).Detached
		}
		n.wantComplete()
		if isDetached {
			t.Error("the one with bursts was detached")
		}
		if n.repairs*2 > n.lost*3 {
			t.Errorf("%d packets were lost, and %d sent again", n.lost, n.repairs)
		}
	}
}

// C35: whatever share is lost in bursts, at all members, what is sent again stays near it.
func TestRepairsFollowBursts(t *testing.T) {
	for share, most := range map[float64]float64{0.001: 2, 0.01: 1.5, 0.05: 1.5, 0.2: 1.5} {
		for _, length := range []float64{10, 100} {
			n := begin(t, setting{length: 20e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 46, cable: func(i int) cable {
				c := lan(mbit100)(i)
				c.burst = burst{start: share / (1 - share) / length, length: length}
				return c
			}, change: func(s *fast.Settings) { s.Patience = time.Minute }})
			n.run(10 * time.Minute)
			n.wantComplete()
			if again := float64(n.repairs) / float64(max(n.lost, 1)); again > most {
				t.Errorf("with a loss of %g in bursts of %.0f, %.2f packets were sent again for each that was lost, want %g", share, length, again, most)
			}
		}
	}
}

// C35: what is sent again stays near what was lost, at whatever loss.
func TestRepairsFollowLoss(t *testing.T) {
	for loss, most := range map[float64]float64{0.001: 2, 0.05: 1.5, 0.2: 1.5} {
		n := begin(t, setting{length: 5e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 45, cable: func(i int) cable {
			c := lan(mbit100)(i)
			c.loss = loss
			return c
		}, change: func(s *fast.Settings) { s.Patience = time.Minute }})
		n.run(5 * time.Minute)
		n.wantComplete()
		overhead := float64(n.repairs) / float64(max(n.lost, 1))
		t.Logf("%g: %d sent again, %d lost: %.2f", loss, n.repairs, n.lost, overhead)
		if overhead > most {
			t.Errorf("with a loss of %g, %.2f packets were sent again for each that was lost, want %g", loss, overhead, most)
		}
	}
}
