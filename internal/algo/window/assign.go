package window

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Demand is what one client needs of the receive buffer.
type Demand struct {
	Target   Rate
	RTT      time.Duration
	Priority int
}

// bytes is the window that gives a rate: "W[KB] = T_t[Mbps] * RTT[ms]/8" (003 §III-A, eq. 1).
// A rate in bytes per second has the 8 in it.
func (r Rate) bytes(rtt time.Duration) float64 { return float64(r) * rtt.Seconds() }

// Assign divides a budget of receive buffer, in bytes, and says by which of the rules of 003
// §III-A: Surplus, Priority or Ratio. The windows are in the order of the demands. Every demand
// should have a target: one without gets nothing.
func Assign(budget float64, demands []Demand) (windows []float64, rule Reason) {
	windows = make([]float64, len(demands))
	targets, needed, least := 0.0, 0.0, math.Inf(1)
	for i, d := range demands {
		windows[i] = d.Target.bytes(d.RTT)
		needed += windows[i]
		targets += float64(d.Target)
		if d.Target > 0 {
			least = min(least, float64(d.Target))
		}
	}
	if targets == 0 {
		return windows, Ratio
	}
	if needed <= budget {
		for i, d := range demands {
			windows[i] += (budget - needed) * float64(d.Target) / targets
		}
		return windows, Surplus
	}
	if byPriority(windows, budget, Rate(least), demands) {
		return windows, Priority
	}
	for i, d := range demands {
		windows[i] = budget * float64(d.Target) / targets
	}
	return windows, Ratio
}

// byPriority gives every client what "the minimum target value in all clients" needs, and then, in
// decreasing order of priority, what its own target needs, as far as there is any left. It reports
// whether the first part can be done.
func byPriority(windows []float64, budget float64, least Rate, demands []Demand) bool {
	minimum := func(d Demand) float64 { return min(least, d.Target).bytes(d.RTT) }
	for _, d := range demands {
		budget -= minimum(d)
	}
	if budget < 0 {
		return false
	}
	order := make([]int, len(demands))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(demands[b].Priority, demands[a].Priority) })
	for _, i := range order {
		more := min(budget, windows[i]-minimum(demands[i]))
		windows[i] = minimum(demands[i]) + more
		budget -= more
	}
	return true
}
