package paper003

import (
	"context"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/internal/algo/window"
)

// Targets is an experiment of our own: which clients get their targets, alone and beside traffic that takes what it can.
var Targets = experiment.Experiment{
	Paper: "003",
	Name:  "targets",
	About: "six clients on 10 Mbit/s, alone and beside three greedy TCP connections: ours and traditional, 2 minutes",
	Run:   targets,
}

// settle is after how long measuring begins: all clients have come by then, and their windows are right.
const settle = 10 * time.Second

func targets(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	if options.Duration == 0 {
		options.Duration = 50 * time.Second
	}
	r := &measure.Result{
		Title: "Paper 003, targets on a shared link", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`Six clients (targets of 1.0 and 0.5 Mbit/s in turn, of priority 1 and 0) upload without an end to a gatherer over a link of %v with a
queue of %v, over round trips of 20 to 120 ms. Then the same with three TCP connections beside them over the same link that take what they can. Two networks ran at a time, in the
order of the tables, %v each; what is measured begins after %v. A client's rate is what the gatherer's kernel received, TLS among it.`,
			stepRate, stepQueue, options.Duration, settle),
	}
	var goals experiment.Goals
	for _, interferers := range []int{0, 3} {
		cases := []gathering.Case{
			amid(window.Groupcast, "cubic", options.Seed, interferers),
			amid(window.Traditional, "cubic", options.Seed, interferers),
		}
		for _, congestion := range []string{"reno", "bbr"} {
			if interferers > 0 {
				cases = append(cases, amid(window.Traditional, congestion, options.Seed, interferers))
			}
		}
		all, err := gathering.Beside(ctx, cases, func(s *gathering.Site) error {
			if err := s.StreamAll(); err != nil {
				return err
			}
			if err := s.Greedy(0, options.Duration); err != nil {
				return err
			}
			return s.Until(options.Duration)
		})
		if err != nil {
			return nil, err
		}
		title := "alone"
		if interferers > 0 {
			title = fmt.Sprintf("beside %d TCP connections", interferers)
		}
		reportTargets(r, title, all, interferers, options)
		goals = append(goals, shared(title, all, settle.Seconds(), options.Duration.Seconds())...)
	}
	r.Tables = append([]measure.Table{goals.Table()}, r.Tables...)
	goals.Tell(options.Progress)
	return r, nil
}

func reportTargets(r *measure.Result, title string, all []*gathering.Seen, interferers int, options experiment.Options) {
	from, until := settle.Seconds(), options.Duration.Seconds()
	summary := measure.Table{Title: "Six clients " + title, Columns: gathering.SummaryColumns()}
	for _, s := range all {
		summary.Rows = append(summary.Rows, s.Summary(from, until))
		options.Progress("  %s: %v", title, s.Summary(from, until))
	}
	r.Tables = append(r.Tables, summary, gathering.Clients("Each client, "+title, all[:2], from, until))
	for i, s := range all[:2] {
		chart := measure.Chart{
			File: fmt.Sprintf("targets%d-%s", interferers, s.Controller), Title: fmt.Sprintf("Six clients %s, %s", title, s.Controller),
			X: measure.Axis{Label: "Time [s]", Max: until}, Y: measure.Axis{Label: "Throughput [Mbit/s]", Max: 4},
		}
		for _, t := range all[i].Terminals {
			line := s.Throughput(t.Name)
			line.Name = fmt.Sprintf("%s, %v, target %.1f", t.Name, 2*t.Delay, t.Target())
			chart.Series = append(chart.Series, line)
		}
		r.Charts = append(r.Charts, chart)
	}
}
