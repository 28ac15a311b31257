package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// C65: the link carries 100, then 10, then 100 Mbit/s. That it has less than the targets is not taken for
// others who fill the queue: minimums are met and the rest goes by priority, and within 5 s of the
// rise targets are met again.
func TestLinkThatDropsToATenthAndComesBack(t *testing.T) {
	for _, queue := range []int{128e3, 512e3} {
		s := newSite(100*mbit, queue, controller(t, window.Groupcast))
		var all []*upload
		for i := range 4 {
			u := &upload{path: time.Duration(10*(i+1)) * ms, cubic: true}
			u.Name, u.Target, u.Minimum = fmt.Sprint("terminal ", i), 10*mbit, 2*mbit
			if i < 2 {
				u.Target, u.Priority = 15*mbit, 1
			}
			all = append(all, s.join(u))
		}
		s.run(12 * second)
		wantTargets(t, all, .95, 5*second, 5*second, 12*second)
		s.access.rate = 10 * mbit
		s.run(20 * second)
		tell(t, all, 17*second, 32*second)
		for _, u := range all {
			if got := u.mean(17*second, 32*second); got < .93*float64(u.Minimum) {
				t.Errorf("queue %d: %s has %.2f Mbit/s, of a minimum of 2", queue, u.Name, got/mbit)
			}
		}
		if high, low := all[0].mean(17*second, 32*second), all[3].mean(17*second, 32*second); high < low {
			t.Errorf("queue %d: %.2f Mbit/s for the higher priority, %.2f for the lower", queue, high/mbit, low/mbit)
		}
		s.access.rate = 100 * mbit
		s.run(15 * second)
		wantTargets(t, all, .95, 5*second, 37*second, 47*second)
	}
}

// On a path of next to no round trip a window holds for two milliseconds: one that is made for the round trip
// alone would hold the client back, though the link has room.
func TestShortPathsHoldNobodyBack(t *testing.T) {
	const step = .002
	rules := controller(t, window.Groupcast)
	at, set := time.Unix(1e9, 0), 0
	for i, rate := range []float64{1e8, 3e8, 3e8, 3e8, 3e8} { // bytes per second
		decision := rules.Step(at, window.Facts{Clients: []window.Client{{
			Name: "near", Active: true, Remaining: 1 << 40, Throughput: window.Rate(rate), Connections: []window.Connection{{
				ID: 1, Age: time.Duration(i+1) * window.Interval, RTT: 40 * time.Microsecond, LeastRTT: 20 * time.Microsecond, MSS: 1448,
				Received: 1 << 30, Throughput: window.Rate(rate), Window: set,
			}},
		}}})
		set, at = decision.Shares[0].Windows[0].Bytes, at.Add(window.Interval)
		if float64(set) < .9*step*rate {
			t.Errorf("step %d: a window of %d bytes at %.0f MB/s, want it to hold for %v s", i, set, rate/1e6, step)
		}
	}
}
