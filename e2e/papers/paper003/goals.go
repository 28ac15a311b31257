package paper003

import (
	"fmt"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/internal/algo/window"
)

// meanOf returns the mean throughput of the clients with a priority, in Mbit/s.
func meanOf(s *gathering.Seen, priority int, from, until float64) float64 {
	return s.Mean("", s.OfPriority(priority)...).Between(from, until).Mean()
}

// worstHeld returns in what share of the half seconds the worst client of a priority has its target, in percent.
func worstHeld(s *gathering.Seen, priority int, from, until float64) float64 {
	worst := 1.
	for _, t := range s.Terminals {
		if t.Share.Priority == priority {
			worst = min(worst, s.Held(t.Name, t.Target(), from, until))
		}
	}
	return 100 * worst
}

// targetsHold is the goal of figure 3: "the proposed method satisfies target throughput with a margin in both
// high and low priority clients", and the compared method does not.
func targetsHold(all []*gathering.Seen, from, until float64) (g experiment.Goals) {
	for _, s := range all {
		high, low := worstHeld(s, 1, from, until), worstHeld(s, 0, from, until)
		holds, seen := high >= 95 && low >= 95, fmt.Sprintf("%.1f and %.1f %% of them at worst", high, low)
		if s.Controller == window.Matsuo || s.Controller == window.Traditional {
			g.Add(s.Controller+": not so", seen, !holds)
		} else {
			g.Add(s.Controller+": every client of high and of low priority has its target in 95 % of the half seconds", seen, holds)
		}
	}
	return g
}

// connectionsHold is the goal of figures 5 and 6: "communication of Terminal 3 which is high priority client is lower
// than target throughput" with buffers alone; with the number of connections "Terminal 3 satisfies 1.0[Mbps]".
func connectionsHold(all []*gathering.Seen, from, until float64) (g experiment.Goals) {
	const terminal, target = "t3", 1.
	for _, s := range all {
		mean, held := s.Rate(terminal, from, until), 100*s.Held(terminal, target, from, until)
		seen := fmt.Sprintf("%.2f Mbit/s, at the target in %.0f %% of the half seconds", mean, held)
		if s.Controller == window.Buffers {
			g.Add(s.Controller+": terminal 3 loses its target", seen, mean < target)
		} else {
			g.Add(s.Controller+": terminal 3 has its target", seen, mean >= target)
		}
	}
	return g
}

// averages is the goal of table II: with reno, at least the paper's averages.
func averages(all []*gathering.Seen, from, until float64) (g experiment.Goals) {
	for _, s := range all {
		high, low := meanOf(s, 1, from, until), meanOf(s, 0, from, until)
		seen := fmt.Sprintf("%.2f and %.2f", high, low)
		if s.Congestion == "reno" {
			g.Add(s.Controller+", reno: at least the paper's 1.60 and 0.80 Mbit/s", seen, high >= 1.6 && low >= .8)
		}
		g.Add(fmt.Sprintf("%s, %s: targets are met on the average", s.Controller, s.Congestion), seen, high >= 1 && low >= .5)
	}
	return g
}

// shared is goals of our own: all targets are held, the link is used, and the queue is far shorter than with traditional gathering and cubic
// in the same run. The first of all is ours, the second that.
func shared(title string, all []*gathering.Seen, from, until float64) (g experiment.Goals) {
	ours, traditional := all[0], all[1]
	share, worst, used := ours.Reached(from, until), ours.WorstOf(1, from, until), ours.Utilization.Between(from, until).Mean()
	queue := ours.Queue.Between(from, until).Mean() / traditional.Queue.Between(from, until).Mean()
	g.Add(title+": at least 0.99 of the targets", measure.Short(share), share >= .99)
	g.Add(title+": at least 0.97 Mbit/s for the worst client of high priority", measure.Short(worst), worst >= .97)
	g.Add(title+": at least 95 % of the link are used", measure.Short(used), used >= 95)
	g.Add(title+": a mean queue of at most 0.3 of that of traditional with cubic", measure.Short(queue), queue <= .3)
	return g
}
