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

// Model1 is figure 3.
var Model1 = experiment.Experiment{
	Paper: "003",
	Name:  "model1",
	About: "figure 3: the proposed method, ours, matsuo and traditional with reno on model 1, 1 minute",
	Run:   figure3,
}

func figure3(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	if options.Duration == 0 {
		options.Duration = 50 * time.Second
	}
	names := []string{window.Gathering, window.Groupcast, window.Matsuo, window.Traditional}
	all, err := gathering.Beside(ctx, casesOf(names, func(name string) gathering.Case { return model1(name, "reno", options.Seed) }), func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		return s.Until(options.Duration)
	})
	if err != nil {
		return nil, err
	}
	from, until := settle.Seconds(), options.Duration.Seconds()
	r := &measure.Result{
		Title: "Paper 003, model 1", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`Figure 2's six clients and one server; the link to the server carries %v and has a queue of %d packets, which the text does not tell. Terminals 0 to 2
are of low priority, 20 to 60 ms away; 3 to 5 of high, 80 to 120 ms. TCP is reno, as in table I. Two ran at a time, for %v each; what is measured begins after %v.`,
			modelRate, modelQueue, options.Duration, settle),
		Tables: []measure.Table{targetsHold(all, from, until).Table(), held(all, from, until), gathering.Clients("Each client", all, from, until)},
	}
	chart := measure.Chart{
		File: "figure3", Title: "Figure 3: temporal change of throughput (model 1)",
		X: measure.Axis{Label: "Time [s]", Max: until}, Y: measure.Axis{Label: "Throughput [Mbit/s]", Max: 3},
	}
	for _, s := range all {
		chart.Series = append(chart.Series, s.Mean(s.Controller+", high", s.OfPriority(1)...), s.Mean(s.Controller+", low", s.OfPriority(0)...))
		options.Progress("  %v", s.Summary(from, until))
	}
	r.Charts = []measure.Chart{chart}
	targetsHold(all, from, until).Tell(options.Progress)
	return r, nil
}

// held says in how many of the half seconds the clients of high and of low priority had their
// targets: on average, as the figure draws it, and for the worst client.
func held(all []*gathering.Seen, from, until float64) measure.Table {
	t := measure.Table{Title: "Who has its target", Columns: []string{
		"controller", "high, mean Mbit/s", "low, mean Mbit/s", "half seconds in which the mean of high is at least 1.0, %", "in which that of low is at least 0.5, %",
		"for the worst of high, %", "for the worst of low, %", "utilization, %", "mean queue, KiB", "emulator late, 99 %",
	}}
	for _, s := range all {
		row := []string{s.Controller}
		means := []measure.Series{s.Mean("", s.OfPriority(1)...).Between(from, until), s.Mean("", s.OfPriority(0)...).Between(from, until)}
		for _, mean := range means {
			row = append(row, measure.Short(mean.Mean()))
		}
		for i, target := range []float64{1, .5} {
			row = append(row, measure.Short(100*share(means[i], target)))
		}
		for i, target := range []float64{1, .5} {
			worst := 1.0
			for _, name := range s.OfPriority(1 - i) {
				worst = min(worst, s.Held(name, target, from, until))
			}
			row = append(row, measure.Short(100*worst))
		}
		t.Rows = append(t.Rows, append(row, measure.Short(s.Utilization.Between(from, until).Mean()),
			measure.Short(s.Queue.Between(from, until).Mean()/1024), s.Late.Within(.99).String()))
	}
	return t
}

// share returns the share of the points that are at least a value.
func share(of measure.Series, least float64) float64 {
	n := 0
	for _, p := range of.Points {
		if p.Y >= least {
			n++
		}
	}
	return float64(n) / float64(max(1, len(of.Points)))
}

func casesOf(names []string, make func(name string) gathering.Case) (cases []gathering.Case) {
	for _, name := range names {
		cases = append(cases, make(name))
	}
	return cases
}

// Model2 is figures 5 and 6.
var Model2 = experiment.Experiment{
	Paper: "003",
	Name:  "model2",
	About: "figures 5 and 6: buffers alone, buffers and connections, and ours amid interference on model 2, time a tenth, 1 minute",
	Run:   figures5and6,
}

// The paper's interference lasts from 100 to 500 s. Here a second stands for ten.
const (
	interferenceFrom, interferenceUntil = 10 * time.Second, 50 * time.Second
	model2Time                          = 60 * time.Second
)

func figures5and6(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	names := []string{window.Buffers, window.Gathering, window.Groupcast}
	all, err := gathering.Beside(ctx, casesOf(names, func(name string) gathering.Case { return model2(name, "reno", options.Seed) }), func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		if err := s.Greedy(interferenceFrom, interferenceUntil); err != nil {
			return err
		}
		return s.Until(model2Time)
	})
	if err != nil {
		return nil, err
	}
	from, until := (interferenceFrom + 5*time.Second).Seconds(), interferenceUntil.Seconds()
	r := &measure.Result{
		Title: "Paper 003, model 2", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`Figure 4's six clients: terminals 0 to 2 behind router 1, 3 to 5 behind router 2, and from %v to %v three TCP connections that take what they can over the link
from router 2 to router 3. That carries %v, and the link to the server %v, with queues of %d packets: the text tells neither. 0, 2 and 3 are of high priority. **A second stands for ten of
the paper's.** TCP is reno. Two ran at a time; the tables are of the time of interference from its fifth second on.`,
			interferenceFrom, interferenceUntil, routerRate, modelRate, modelQueue),
		Tables: []measure.Table{connectionsHold(all, from, until).Table(), gathering.Clients("Each client amid interference", all, from, until)},
	}
	summary := measure.Table{Title: "All clients amid interference", Columns: gathering.SummaryColumns()}
	for i, s := range all {
		chart := measure.Chart{
			File: []string{"figure5", "figure6", "figure6-groupcast"}[i], Title: []string{"Figure 5: ", "Figure 6: ", "Figure 6, ours: "}[i] + "throughput amid interference, " + s.Controller,
			X: measure.Axis{Label: "Time [s]", Max: model2Time.Seconds()}, Y: measure.Axis{Label: "Throughput [Mbit/s]", Max: 3},
		}
		for _, name := range []string{"t0", "t3", "t4"} {
			chart.Series = append(chart.Series, s.Throughput(name))
		}
		r.Charts = append(r.Charts, chart)
		summary.Rows = append(summary.Rows, s.Summary(from, until))
		options.Progress("  %v, t3 %.2f", s.Summary(from, until), s.Rate("t3", from, until))
	}
	r.Tables = append(r.Tables, summary)
	connectionsHold(all, from, until).Tell(options.Progress)
	return r, nil
}

// Versions is table II.
var Versions = experiment.Experiment{
	Paper: "003",
	Name:  "versions",
	About: "table II and figure 7: the proposed method and ours with reno, cubic and bbr on model 1, 1 minute",
	Run:   table2,
}

func table2(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	if options.Duration == 0 {
		options.Duration = 40 * time.Second
	}
	r := &measure.Result{
		Title: "Paper 003, versions of TCP", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf("Model 1 as for figure 3, with the kernel's congestion controls. Two ran at a time, for %v each; what is measured begins after %v.", options.Duration, settle),
	}
	t := measure.Table{Title: "Table II: average throughput of each TCP version, Mbit/s", Columns: []string{"controller", "TCP version", "high priority", "low priority"}}
	var goals experiment.Goals
	from, until := settle.Seconds(), options.Duration.Seconds()
	for _, name := range []string{window.Gathering, window.Groupcast} {
		all, err := gathering.Beside(ctx, casesOf([]string{"reno", "cubic", "bbr"}, func(congestion string) gathering.Case { return model1(name, congestion, options.Seed) }), func(s *gathering.Site) error {
			if err := s.StreamAll(); err != nil {
				return err
			}
			return s.Until(options.Duration)
		})
		if err != nil {
			return nil, err
		}
		r.Charts = append(r.Charts, figure7(name, all, until))
		goals = append(goals, averages(all, from, until)...)
		for _, s := range all {
			t.Rows = append(t.Rows, []string{
				s.Controller, s.Congestion, measure.Short(meanOf(s, 1, from, until)), measure.Short(meanOf(s, 0, from, until)),
			})
			options.Progress("  %v", t.Rows[len(t.Rows)-1])
		}
	}
	t.Rows = append(t.Rows, []string{"the paper", "reno", "1.60", "0.80"}, []string{"the paper", "cubic", "1.67", "0.83"})
	r.Tables = []measure.Table{goals.Table(), t}
	goals.Tell(options.Progress)
	return r, nil
}

// figure7 shows the fastest and the slowest version of TCP over time.
func figure7(name string, all []*gathering.Seen, until float64) measure.Chart {
	chart := measure.Chart{
		File: "figure7-" + name, Title: "Figure 7: temporal change of throughput with cubic and reno, " + name,
		X: measure.Axis{Label: "Time [s]", Max: until}, Y: measure.Axis{Label: "Throughput [Mbit/s]", Max: 3},
	}
	for _, s := range all {
		if s.Congestion != "bbr" {
			chart.Series = append(chart.Series, s.Mean(s.Congestion+", high", s.OfPriority(1)...), s.Mean(s.Congestion+", low", s.OfPriority(0)...))
		}
	}
	return chart
}
