package paper001

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/internal/algo/window"
)

// Gathered is scenario 1 with uploads to the product's gatherer.
var Gathered = experiment.Experiment{
	Paper: "001",
	Name:  "scenario1-gathered",
	About: "figures 8 and 9: ours, proposed, spring and traditional with the gatherer, reno, time a tenth, 2 minutes",
	Run:   gathered,
}

// A second stands for ten: 500 s of the paper are 50 after the link was seen idle.
const (
	idleShorts    = 10
	gatheredIdle  = 6 * time.Second
	gatheredStart = gatheredIdle + shortStart/10
	gatheredEnd   = gatheredIdle + simulated/10
	gatheredCount = 60 // of 0.5 s in the mean
)

// measured is one controller's scenario.
type measured struct {
	*gathering.Seen
	idle, busy gathering.Transfers
}

func gathered(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	names := []string{window.Groupcast, window.Traditional, window.Proposed, window.Spring}
	cases, runs := make([]gathering.Case, len(names)), map[string]*measured{}
	for i, name := range names {
		cases[i] = gatheredCase(name, options.Seed)
		runs[name] = &measured{}
	}
	all, err := gathering.Beside(ctx, cases, func(s *gathering.Site) error { return runs[s.Controller].happen(s, options.Seed) })
	if err != nil {
		return nil, err
	}
	ordered := make([]*measured, len(all))
	for i, seen := range all {
		ordered[i] = runs[seen.Controller]
		ordered[i].Seen = seen
		options.Progress("  %v", ordered[i].row())
	}
	return reportGathered(options, ordered), nil
}

func gatheredCase(controller string, seed uint64) gathering.Case {
	c := gathering.Case{
		Seed: seed, Controller: controller, Congestion: "reno",
		Access: link.Shape{Rate: accessRate, Queue: link.Size(routerBuffer)},
	}
	for _, sender := range senders {
		c.Terminals = append(c.Terminals, gathering.Terminal{Name: strings.ToLower(sender.name), Delay: sender.delay})
	}
	return c
}

func (m *measured) happen(s *gathering.Site, seed uint64) (err error) {
	short := gathering.Short{Terminal: "d", Count: idleShorts, Size: shortSize}
	if m.idle, err = s.Upload(short); err != nil {
		return err
	}
	if err := s.Until(gatheredIdle); err != nil {
		return err
	}
	for _, sender := range senders[:3] {
		if _, err := s.Stream(strings.ToLower(sender.name)); err != nil {
			return err
		}
	}
	if err := s.Until(gatheredStart); err != nil {
		return err
	}
	short.Count, short.Interval, short.Seed = gatheredCount, shortMean/10, seed
	if m.busy, err = s.Upload(short); err != nil {
		return err
	}
	return s.Until(gatheredEnd)
}

func (m *measured) row() []string {
	from, until := gatheredStart.Seconds(), gatheredEnd.Seconds()
	row := []string{
		m.Controller, measure.Short(measure.Median(m.idle.Took)), measure.Short(measure.Median(m.busy.Established)), measure.Short(measure.Quantile(m.busy.Established, .95)),
		measure.Short(measure.Median(m.busy.Took)), measure.Short(measure.Quantile(m.busy.Took, .95)),
		measure.Short(m.Utilization.Between(from, until).Mean()), measure.Short(m.Queue.Between(from, until).Mean() / 1024), fmt.Sprint(m.Dropped),
	}
	for _, sender := range senders[:3] {
		row = append(row, measure.Short(1000*m.Rate(strings.ToLower(sender.name), from, until)))
	}
	return append(row, m.Late.Within(.99).String())
}

func reportGathered(options experiment.Options, all []*measured) *measure.Result {
	r := &measure.Result{
		Title: "Paper 001, scenario 1, with a gatherer", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`Figure 4 with uploads to a gatherer in place of downloads: A, B and C, 35, 45 and 55 ms away, without an end; D, 10 ms away, %d files of 30 KB, one every
%v in the mean. **A second stands for ten of the paper's.** TCP is reno. Establishment is the TCP handshake of a file's data connection. The whole upload takes seven round trips at least on an idle
link, where the paper's transfer takes three: it asks the gatherer, has handshakes of TCP, TLS and the data protocol, and ends when the file is on the gatherer's disk. So the column to compare
with is that of the idle link, the same uploads before A, B and C begin. Two networks ran at a time.`, gatheredCount, shortMean/10),
	}
	t := measure.Table{Title: "Scenario 1", Columns: []string{
		"controller", "idle link: upload median, s", "establishment median, s", "95 %, s", "upload median, s", "95 %, s", "utilization, %", "mean queue, KiB", "queue drops",
		"A, Kbit/s", "B", "C", "emulator late, 99 %",
	}}
	share := measure.Axis{Label: "Cumulative relative frequency", Max: 1}
	clock := measure.Axis{Label: "Time [s]", Max: gatheredEnd.Seconds()}
	charts := []measure.Chart{
		{File: "figure8a", Title: "Figure 8(a): connection establishment time", Kind: measure.Steps, X: measure.Axis{Label: "Connection establishment time [sec]"}, Y: share},
		{File: "figure8b", Title: "Figure 8(b): upload of 30 KB", Kind: measure.Steps, X: measure.Axis{Label: "Upload time [sec]"}, Y: share},
		{File: "figure8c", Title: "Figure 8(c): utilization of the access link", X: clock, Y: measure.Axis{Label: "Utilization [%]", Max: 105}},
		{File: "figure8d", Title: "Figure 8(d): average queue length", X: clock, Y: measure.Axis{Label: "Queue length [bytes]"}},
	}
	for _, m := range all {
		t.Rows = append(t.Rows, m.row())
		lines := []measure.Series{measure.Distribution("", m.busy.Established), measure.Distribution("", m.busy.Took), m.Utilization, m.Queue}
		for i := range charts {
			lines[i].Name = m.Controller
			charts[i].Series = append(charts[i].Series, lines[i])
		}
	}
	r.Tables, r.Charts = []measure.Table{t}, charts
	return r
}
