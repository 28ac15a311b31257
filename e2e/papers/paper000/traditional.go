package paper000

import (
	"context"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
)

// Traditional is figures 6 to 8 for unicast.
var Traditional = experiment.Experiment{
	Paper: "000",
	Name:  "unicast",
	About: "figures 6 to 8: one TCP connection from the sender to each receiver, at 100 Mbit/s",
	Run:   traditional,
}

// The paper's values (table I, §IV-A), used as defaults.
const (
	simulated = 100 * time.Second
	paperRuns = 5
)

var (
	loads       = []float64{0.2, 0.4, 0.6, 0.8, 1}
	memberLoads = []float64{0.2, 0.6, 1} // the lines of figure 6
	delays      = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond}
)

// results are the means over all runs at each point.
type results map[point]outcome

func traditional(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	if options.Duration == 0 {
		options.Duration = simulated
	}
	if options.Runs == 0 {
		options.Runs = paperRuns
	}
	measured := results{}
	for _, p := range points() {
		mean, err := repeat(ctx, p, options)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", p, err)
		}
		options.Progress("  %v: uplink %.1f, reception %.2f, effective %.3f; emulator 99 %% within %v", p, mean.consumption, mean.reception, mean.effective(), mean.late.Within(0.99))
		measured[p] = mean
	}
	return report(options, measured), nil
}

// points returns all points that the figures show, each once.
func points() []point {
	var list []point
	seen := map[point]bool{}
	add := func(p point) {
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	for _, delay := range delays {
		for _, load := range loads {
			add(point{senders: 1, members: 1, trunkDelay: delay, load: load})
		}
	}
	for members := 1; members <= mostMembers; members++ {
		for _, load := range memberLoads {
			add(point{senders: 1, members: members, trunkDelay: delays[0], load: load})
		}
	}
	return list
}

func repeat(ctx context.Context, p point, options experiment.Options) (outcome, error) {
	var mean outcome
	for i := range options.Runs {
		o, err := unicast(ctx, p, options.Seed+uint64(i), options.Duration)
		if err != nil {
			return outcome{}, err
		}
		mean.consumption += o.consumption / float64(options.Runs)
		mean.sent += o.sent / float64(options.Runs)
		mean.reception += o.reception / float64(options.Runs)
		mean.late = o.late
	}
	return mean, nil
}

func report(options experiment.Options, measured results) *measure.Result {
	return &measure.Result{
		Title:  "Paper 000, figures 6 to 8, unicast",
		Seed:   options.Seed,
		Origin: options.Origin,
		About: fmt.Sprintf(`One sender, ma1, and 1 to 5 receivers in each of three networks, joined by two routers (figure 5). Every receiver has a
TCP connection of its own from the sender (reno with SACK); 5 MB at a time, at random times, for a given traffic load. Links of
100 Mbit/s and 10 ms, queues of 200 packets, as in the paper: nothing is scaled down but the time. Mean of %d runs of %v;
the paper has 5 of 100 s.`, options.Runs, options.Duration),
		Tables: []measure.Table{table(measured)},
		Charts: []measure.Chart{measured.figure6(), measured.figure7(), measured.figure8()},
	}
}

func table(measured results) measure.Table {
	t := measure.Table{Title: "Every point", Columns: []string{
		"members per network", "trunk delay", "traffic load", "uplink, Mbit/s", "reception throughput, Mbit/s", "effective throughput", "emulator late, 99 %",
	}}
	for _, p := range points() {
		o := measured[p]
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(p.members), p.trunkDelay.String(), measure.Short(p.load),
			measure.Short(o.consumption), measure.Short(o.reception), measure.Short(o.effective()), o.late.Within(0.99).String(),
		})
	}
	return t
}

func (r results) figure6() measure.Chart {
	chart := measure.Chart{
		File: "figure6", Title: "Figure 6: bandwidth consumption between ma1 and SA1", Kind: measure.Marks,
		X: measure.Axis{Label: "Number of members in each network", Min: 0.5, Max: mostMembers + 0.5},
		Y: measure.Axis{Label: "Bandwidth consumption [Mb/s]", Max: 110},
	}
	for _, load := range memberLoads {
		line := measure.Series{Name: fmt.Sprintf("Unicast, load %.1f", load)}
		for members := 1; members <= mostMembers; members++ {
			o := r[point{senders: 1, members: members, trunkDelay: delays[0], load: load}]
			line.Points = append(line.Points, measure.Point{X: float64(members), Y: o.consumption})
		}
		chart.Series = append(chart.Series, line)
	}
	return chart
}

func (r results) figure7() measure.Chart {
	return r.overLoad("figure7", "Figure 7: reception throughput",
		measure.Axis{Label: "Reception throughput [Mb/s]", Max: 100}, func(o outcome) float64 { return o.reception })
}

func (r results) figure8() measure.Chart {
	return r.overLoad("figure8", "Figure 8: effective throughput",
		measure.Axis{Label: "Effective throughput", Max: 1.05}, outcome.effective)
}

func (r results) overLoad(file, title string, y measure.Axis, index func(outcome) float64) measure.Chart {
	chart := measure.Chart{File: file, Title: title, Kind: measure.Marks, X: measure.Axis{Label: "Traffic load", Max: 1}, Y: y}
	for _, delay := range delays {
		line := measure.Series{Name: fmt.Sprintf("Unicast (%d ms)", delay.Milliseconds())}
		for _, load := range loads {
			line.Points = append(line.Points, measure.Point{X: load, Y: index(r[point{senders: 1, members: 1, trunkDelay: delay, load: load}])})
		}
		chart.Series = append(chart.Series, line)
	}
	return chart
}
