package window_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/window"
)

const ms = time.Millisecond

func wantWindows(t *testing.T, got, want []float64, rule, wantRule window.Reason) {
	t.Helper()
	if rule != wantRule {
		t.Errorf("by %s, want %s", rule, wantRule)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > .5 {
			t.Errorf("windows %.0f, want %.0f", got, want)
			return
		}
	}
}

// 003 §III-A, eq. 1: "W[KB] = T_t[Mbps] * RTT[ms]/8". 1 Mbit/s over 100 ms is 12.5 KB.
func TestWindowIsTargetTimesRoundTrip(t *testing.T) {
	got, rule := window.Assign(12.5e3, []window.Demand{{Target: 1 * mbit, RTT: 100 * ms}})
	wantWindows(t, got, []float64{12500}, rule, window.Surplus)
}

// 003 §III-A: "If there are remaining buffer resources after the assignment, the surplus
// buffer space is assigned to every client according to the ratio of target throughput."
// 12.5 + 3.75 KB are needed of 31.25: the 15 KB that are left go 2 : 1.
func TestSurplusGoesByRatioOfTargets(t *testing.T) {
	got, rule := window.Assign(31.25e3, []window.Demand{{Target: 1 * mbit, RTT: 100 * ms}, {Target: .5 * mbit, RTT: 60 * ms}})
	wantWindows(t, got, []float64{12500 + 10000, 3750 + 5000}, rule, window.Surplus)
}

// 003 §III-A: "if the actually assigned buffer size can not satisfy the above size W in all
// sessions, buffer size for each client is calculated under the condition that target
// throughput for all clients is set to the minimum target value in all clients. […] if buffer
// volume is still left, the surplus buffer space is allocated in the decreasing order of
// priority." Targets of 1, 2 and .5 Mbit/s over 80 ms need 10, 20 and 5 KB; .5 Mbit/s for all
// needs 15. Of the 10 KB that are left, the second has 15 to go, and takes all; of 20 it leaves
// 5 for the first.
func TestShortBufferGoesByPriority(t *testing.T) {
	demands := []window.Demand{
		{Target: 1 * mbit, RTT: 80 * ms, Priority: 1}, {Target: 2 * mbit, RTT: 80 * ms, Priority: 2}, {Target: .5 * mbit, RTT: 80 * ms},
	}
	got, rule := window.Assign(25e3, demands)
	wantWindows(t, got, []float64{5e3, 15e3, 5e3}, rule, window.Priority)
	got, rule = window.Assign(34e3, demands)
	wantWindows(t, got, []float64{9e3, 20e3, 5e3}, rule, window.Priority)
}

// 003 §III-A: "if the buffer size to satisfy the minimum target throughput cannot be ensured
// for all clients, total buffer space is divided depending on the ratio of target throughput
// of each client." .5 Mbit/s for all needs 15 KB of 14: 4, 8 and 2.
func TestScarceBufferGoesByRatio(t *testing.T) {
	got, rule := window.Assign(14e3, []window.Demand{
		{Target: 1 * mbit, RTT: 80 * ms}, {Target: 2 * mbit, RTT: 80 * ms, Priority: 2}, {Target: .5 * mbit, RTT: 80 * ms},
	})
	wantWindows(t, got, []float64{4e3, 8e3, 2e3}, rule, window.Ratio)
}

func TestNobodyWantsAnything(t *testing.T) {
	got, rule := window.Assign(1e5, make([]window.Demand, 2))
	wantWindows(t, got, []float64{0, 0}, rule, window.Ratio)
}

// Whatever is asked for, the windows add up to the budget, and none is negative. Where it goes by
// priority, a client of higher priority has no smaller part of what its target needs.
func TestAssignmentsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demands := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) window.Demand {
			return window.Demand{
				Target: window.Rate(rapid.Float64Range(1e3, 1e9).Draw(t, "target")), RTT: time.Duration(rapid.IntRange(1, 500).Draw(t, "rtt")) * ms,
				Priority: rapid.IntRange(-2, 2).Draw(t, "priority"),
			}
		}), 1, 20).Draw(t, "demands")
		budget := rapid.Float64Range(0, 1e9).Draw(t, "budget")
		windows, rule := window.Assign(budget, demands)
		sum := 0.0
		for _, w := range windows {
			if w < 0 {
				t.Fatalf("a window of %f", w)
			}
			sum += w
		}
		if math.Abs(sum-budget) > 1e-6*budget {
			t.Fatalf("%f given of %f", sum, budget)
		}
		for i, a := range demands {
			for j, b := range demands {
				full := windows[i] >= float64(a.Target)*a.RTT.Seconds()*(1-1e-9)
				more := windows[j] > min(float64(b.Target), least(demands))*b.RTT.Seconds()*(1+1e-9)
				if rule == window.Priority && a.Priority > b.Priority && !full && more {
					t.Fatalf("%v has not its target, and %v more than its minimum", a, b)
				}
			}
		}
	})
}

func least(demands []window.Demand) float64 {
	l := math.Inf(1)
	for _, d := range demands {
		l = min(l, float64(d.Target))
	}
	return l
}
