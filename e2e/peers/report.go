package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// row is the medians of one tool in one place, or why there are none.
type row struct {
	tool    string
	without string  // why nothing was measured
	goodput float64 // Mbit/s at the slowest receiver
	stretch float64 // completion of the last receiver over size ÷ line rate
	cpu     float64 // seconds of all programs per GB delivered
	peak    float64 // MiB of the hungriest program
	copies  float64 // of the file that crossed the sender's link
}

func (r row) String() string {
	if r.without != "" {
		return r.without
	}
	return fmt.Sprintf("%.1f Mbit/s, stretch %.2f, %.1f CPU s/GB, %.1f MiB, %.2f copies", r.goodput, r.stretch, r.cpu, r.peak, r.copies)
}

// compare measures t in place p. A tool that cannot run, or fails, is a row that
// says so; an error is only what ends the comparison.
func (s settings) compare(ctx context.Context, t tool.Tool, p place) (row, error) {
	r := row{tool: t.Name()}
	if missing := tool.Missing(t); len(missing) > 0 {
		r.without = "missing: " + strings.Join(missing, ", ")
		return r, nil
	}
	if t.Multicast() && p.routed {
		r.without = "not possible: multicast does not pass the routers"
		return r, nil
	}
	var samples []sample
	for i := range s.runs {
		one, err := deliver(ctx, t, p, s.size, s.seed+uint64(i))
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err != nil {
			r.without = fmt.Sprintf("failed in run %d: %v", i+1, err)
			return r, nil
		}
		samples = append(samples, one)
	}
	s.summarize(&r, p, samples)
	return r, nil
}

func (s settings) summarize(r *row, p place, samples []sample) {
	n := p.build(s.seed)
	median := func(figure func(sample) float64) float64 {
		var values []float64
		for _, one := range samples {
			values = append(values, figure(one))
		}
		return measure.Median(values)
	}
	took := median(func(one sample) float64 { return one.took.Seconds() })
	delivered := float64(s.size) * float64(len(n.receivers)) / 1e9
	r.goodput = float64(s.size) * 8 / took / float64(link.Mbit)
	r.stretch = took / n.rate.Time(s.size).Seconds()
	r.cpu = median(func(one sample) float64 { return one.processor.Seconds() }) / delivered
	r.peak = median(func(one sample) float64 { return float64(one.peak) }) / float64(link.MiB)
	r.copies = median(func(one sample) float64 { return float64(one.uplink) }) / float64(s.size)
}

func (s settings) report(p place, rows []row) *measure.Result {
	t := measure.Table{Title: "Tools", Columns: []string{
		"tool", "goodput, Mbit/s", "stretch", "CPU s per GB delivered", "peak memory, MiB", "copies on the sender's link",
	}}
	stretch := measure.Chart{
		File: "stretch", Title: "Stretch: last receiver ÷ (size ÷ line rate)", Kind: measure.Columns, Y: measure.Axis{Label: "stretch"},
		Series: []measure.Series{{Name: p.name}},
	}
	for _, r := range rows {
		if r.without != "" {
			t.Rows = append(t.Rows, []string{r.tool, r.without, "", "", "", ""})
			continue
		}
		t.Rows = append(t.Rows, []string{
			r.tool, measure.Short(r.goodput), measure.Short(r.stretch), measure.Short(r.cpu), measure.Short(r.peak), measure.Short(r.copies),
		})
		place := float64(len(stretch.Categories))
		stretch.Categories = append(stretch.Categories, r.tool)
		stretch.Series[0].Points = append(stretch.Series[0].Points, measure.Point{X: place, Y: r.stretch})
	}
	result := &measure.Result{
		Title: "Peers: " + p.about, Seed: s.seed, Origin: s.origin, Tables: []measure.Table{t},
		About: fmt.Sprintf(`One file of %d MiB, every copy compared by SHA-256, medians of %d runs, a new network for each. Goodput and stretch are
those of the last receiver, from the start of the sending and fetching programs (servers run before). CPU and memory are of the tools'
programs; what the kernel does for packets on the emulated links is not in them.`, s.size/link.MiB, s.runs),
	}
	if len(stretch.Categories) > 0 {
		result.Charts = []measure.Chart{stretch}
	}
	return result
}
