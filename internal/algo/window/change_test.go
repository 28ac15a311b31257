package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// C65: the link carries 100, then 10, then 100 Mbit/s. When it has less than the targets, that is not taken
// for others who fill the queue: minimums are met, and the rest goes by priority. Within 5 s of the rise targets are
// met again.
func TestLinkThatDropsToATenthAndComesBack(t *testing.T) {
	for _, queue := range []int{256e3, 400e3} {
		for phase := range 5 {
			t.Logf("a queue of %d bytes, %d ms after a step", queue, 100*phase)
			dropToATenth(t, queue, 12*second+time.Duration(100*phase)*ms)
		}
	}
}

func dropToATenth(t *testing.T, queue int, at time.Duration) {
	t.Helper()
	s := newSite(100*mbit, queue, controller(t, window.Groupcast))
	var all []*upload
	for i := range 4 {
		u := &upload{path: time.Duration(10*(i+1)) * ms, cubic: true}
		u.Name, u.Target, u.Minimum = fmt.Sprint("terminal ", i), 10*mbit, 2*mbit
		if i < 2 {
			u.Priority = 1
		}
		all = append(all, s.join(u))
	}
	s.run(at)
	wantTargets(t, all, .95, 5*second, 5*second, at)
	s.access.rate = 10 * mbit
	s.run(20 * second)
	from, to := at+5*second, at+20*second
	for _, u := range all {
		if got := u.mean(from, to); got < .9*float64(u.Minimum) {
			t.Errorf("%s has %.2f Mbit/s, of a minimum of 2", u.Name, got/mbit)
		}
	}
	high, low := all[0].mean(from, to), all[3].mean(from, to)
	t.Logf("%.2f Mbit/s for the higher priority, %.2f for the lower", high/mbit, low/mbit)
	if high < 1.2*low { // their targets are the same
		t.Errorf("%.2f Mbit/s for the higher priority, %.2f for the lower", high/mbit, low/mbit)
	}
	s.access.rate = 100 * mbit
	s.run(15 * second)
	wantTargets(t, all, .95, 5*second, to+5*second, to+15*second)
}

// On a path with next to no round trip, a window also covers the time that reading takes: a window for the round trip
// alone would hold the client back, although the link has room.
func TestShortPathsHoldNobodyBack(t *testing.T) {
	const reading = .002
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
		if float64(set) < .9*reading*rate {
			t.Errorf("step %d: a window of %d bytes at %.0f MB/s, want it to hold for %v s", i, set, rate/1e6, reading)
		}
	}
}

// On a link that has less than the targets, those who are given the higher priority have what it has, and soon; those whom it is taken
// from do not keep it by the connections that they have by then.
func TestPriorityChangesOnANarrowLink(t *testing.T) {
	const change, end, least = 30 * second, 60 * second, .25 * mbit
	cases, soon, sum := 0., 0., 0.
	for _, path := range []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms} {
		for _, queue := range []int{100e3, 150e3, 200e3, 400e3} {
			for _, target := range []float64{2.5, 3, 4} {
				s := newSite(8*mbit, queue, controller(t, window.Groupcast))
				var all []*upload
				for i := range 4 {
					u := &upload{path: path * time.Duration(i+1), cubic: true}
					u.Name, u.Target, u.Minimum, u.Priority = fmt.Sprint("terminal ", i), mbits(target), least, 1-i/2
					all = append(all, s.join(u))
				}
				s.run(change)
				for i, u := range all {
					u.Priority = i / 2
				}
				s.run(end - change)
				due := min(2*target*mbit, goodput*8*mbit-2*least)
				have := func(from, to time.Duration) float64 { return (all[2].mean(from, to) + all[3].mean(from, to)) / due }
				share := have(change+10*second, end)
				if share < .8 {
					t.Errorf("paths of %v and more, a queue of %d bytes, targets of %g Mbit/s: %.2f of their due", path, queue, target, share)
				}
				cases, sum = cases+1, sum+share
				for at := change; at <= change+3*second; at += second / 4 {
					if have(at, at+2*second) >= .9 {
						soon++
						break
					}
				}
			}
		}
	}
	t.Logf("%.3f of their due in the mean, in %.0f of %.0f cases nine tenths of it within 3 s", sum/cases, soon, cases)
	if sum < .93*cases || soon < .7*cases {
		t.Errorf("%.3f of their due in the mean, in %.0f of %.0f cases nine tenths of it within 3 s", sum/cases, soon, cases)
	}
}
