package paper001

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
)

// Traditional is scenario 1 without any control by the receiver.
var Traditional = experiment.Experiment{
	Paper: "001",
	Name:  "scenario1",
	About: "figures 8 and 9: plain reno, cubic and bbr over a 4 Mbit/s access link, 10 minutes",
	Run:   traditional,
}

// simulated is how long the paper's scenario lasts.
const simulated = 500 * time.Second

var controls = []string{"reno", "cubic", "bbr"}

// traditional runs the congestion controls at the same time, each in a network of its own: together they carry 12 Mbit/s.
func traditional(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	p := schedule(options)
	outcomes := make([]*outcome, len(controls))
	errs := make([]error, len(controls))
	var group sync.WaitGroup
	for i, congestion := range controls {
		group.Go(func() { outcomes[i], errs[i] = run(ctx, congestion, p) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return report(options, p, outcomes), nil
}

// schedule shortens all times in proportion if less time is given.
func schedule(options experiment.Options) plan {
	p := plan{seed: options.Seed, total: simulated, start: shortStart, mean: shortMean}
	if options.Duration > 0 {
		scale := float64(options.Duration) / float64(simulated)
		p.total = options.Duration
		p.start = time.Duration(scale * float64(p.start))
		p.mean = time.Duration(scale * float64(p.mean))
	}
	return p
}

func report(options experiment.Options, p plan, outcomes []*outcome) *measure.Result {
	r := &measure.Result{
		Title:  "Paper 001, scenario 1, traditional",
		Seed:   options.Seed,
		Origin: options.Origin,
		About: fmt.Sprintf(`Three long downloads from 35, 45 and 55 ms away share a 4 Mbit/s access link with a buffer of 128 KB.
From %v on, %d downloads of 30 KB start from 10 ms away, every %v in the mean. The receiver controls nothing: this is
the line that 001 §4.2 calls traditional, in real time and at the paper's rates, with the kernel's reno, cubic and bbr.`,
			p.start, shortCount, p.mean),
	}
	r.Tables = []measure.Table{summary(outcomes, p)}
	for _, o := range outcomes {
		r.Flows = append(r.Flows, o.flows()...)
	}
	r.Charts = append(panels(outcomes, p), throughputs(outcomes, p)...)
	return r
}

func summary(outcomes []*outcome, p plan) measure.Table {
	t := measure.Table{Title: "Scenario 1", Columns: []string{
		"congestion control", "establishment median, s", "establishment 95 %, s", "transfer median, s", "transfer 95 %, s",
		"utilization, %", "mean queue, KB", "queue drops", "A, MB", "B, MB", "C, MB", "emulator late, 99 %",
	}}
	for _, o := range outcomes {
		establishment, transfer := seconds(o.transfers)
		row := []string{
			o.congestion,
			measure.Short(measure.Median(establishment)), measure.Short(measure.Quantile(establishment, 0.95)),
			measure.Short(measure.Median(transfer)), measure.Short(measure.Quantile(transfer, 0.95)),
			measure.Short(o.utilization.Between(p.start.Seconds(), p.total.Seconds()).Mean()),
			measure.Short(o.queue.Between(p.start.Seconds(), p.total.Seconds()).Mean()),
			fmt.Sprint(o.dropped.Packets),
		}
		for _, received := range o.received {
			row = append(row, measure.Short(float64(received)/1e6))
		}
		t.Rows = append(t.Rows, append(row, o.late.Within(0.99).String()))
	}
	return t
}

func seconds(transfers []traffic.Transfer) (establishment, transfer []float64) {
	for _, t := range transfers {
		establishment = append(establishment, t.Established.Seconds())
		transfer = append(transfer, t.Took.Seconds())
	}
	return establishment, transfer
}

// panels are figures 8 (a) to (d), with their axes.
func panels(outcomes []*outcome, p plan) []measure.Chart {
	clock := measure.Axis{Label: "Simulation time [sec]", Max: p.total.Seconds()}
	share := measure.Axis{Label: "Cumulative relative frequency", Max: 1}
	charts := []measure.Chart{
		{File: "figure8a", Title: "Figure 8(a): connection establishment time", Kind: measure.Steps, X: measure.Axis{Label: "Connection establishment time [sec]"}, Y: share},
		{File: "figure8b", Title: "Figure 8(b): data transfer time", Kind: measure.Steps, X: measure.Axis{Label: "Data transfer time [sec]"}, Y: share},
		{File: "figure8c", Title: "Figure 8(c): utilization of the access link", X: clock, Y: measure.Axis{Label: "Utilization [%]", Max: 105}},
		{File: "figure8d", Title: "Figure 8(d): average queue length", X: clock, Y: measure.Axis{Label: "Average queue length [KBytes]", Max: 140}},
	}
	for _, o := range outcomes {
		establishment, transfer := seconds(o.transfers)
		lines := []measure.Series{measure.Distribution("", establishment), measure.Distribution("", transfer), o.utilization, o.queue}
		for i := range charts {
			lines[i].Name = o.congestion
			charts[i].Series = append(charts[i].Series, lines[i])
		}
	}
	return charts
}

// throughputs returns figure 9 for each congestion control.
func throughputs(outcomes []*outcome, p plan) []measure.Chart {
	var charts []measure.Chart
	for _, o := range outcomes {
		charts = append(charts, measure.Chart{
			File: "figure9-" + o.congestion, Title: "Figure 9: long downloads, " + o.congestion,
			X: measure.Axis{Label: "Simulation time [sec]", Max: p.total.Seconds()}, Y: measure.Axis{Label: "Throughput [Kbps]", Max: float64(accessRate) / 1000},
			Series: append(o.long, best(p)),
		})
	}
	return charts
}

// best is figure 9's line for a link that is shared fairly and fully used.
func best(p plan) measure.Series {
	share := float64(accessRate) / 3 / float64(link.Kbit)
	return measure.Series{Name: "best", Points: []measure.Point{{X: 0, Y: share}, {X: p.total.Seconds(), Y: share}}}
}

func (o *outcome) flows() []measure.Flow {
	var flows []measure.Flow
	for i, kilobits := range o.long {
		megabits := measure.Series{Name: kilobits.Name}
		for _, point := range kilobits.Points {
			megabits.Points = append(megabits.Points, measure.Point{X: point.X, Y: point.Y / 1000})
		}
		flows = append(flows, measure.Flow{Name: kilobits.Name, Congestion: o.congestion, Bytes: o.received[i], Throughput: megabits})
	}
	return flows
}
