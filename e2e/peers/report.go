package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// row holds the medians of one tool in one place, or says why there are none.
type row struct {
	tool    string
	without string   // why nothing was measured
	samples []sample // one for each round
	took    float64  // seconds until the last receiver had everything
	fast    float64  // seconds until all but the last receiver had everything; 0 of a directory
	ratio   float64  // of took to the baseline's in the same round; 0 without a baseline
	goodput float64  // Mbit/s at the slowest receiver
	stretch float64  // completion of the last receiver, divided by size ÷ line rate; 0 without a line rate
	seconds float64  // CPU of all programs except control
	control float64  // CPU seconds of control
	cpu     float64  // seconds of all programs per GB delivered
	peak    float64  // MiB of the program that needed most
	relay   float64  // MiB of the agent that needed most
	copies  float64  // how many copies of what was sent crossed the sender's link
	clean   float64  // bytes that cross it where nothing is lost; 0 in a place where nothing is
	again   float64  // bytes that crossed it beyond those, for each byte that was lost
	dropped float64  // share of the packets to the last receiver for which a queue had no room
}

func (r row) String() string {
	if r.without != "" {
		return r.without
	}
	fast := ""
	if r.fast > 0 {
		fast = fmt.Sprintf("last but one %.2f s, ", r.fast)
	}
	return fmt.Sprintf("%.2f s, %s%.1f Mbit/s, stretch %.2f, CPU %.2f s (%.1f s/GB) and %.2f s control, %.1f MiB (agents %.1f), %.2f copies",
		r.took, fast, r.goodput, r.stretch, r.seconds, r.cpu, r.control, r.peak, r.relay, r.copies)
}

// compare measures tools in a place: all of them in every round, so that they meet the same
// conditions. A tool that cannot run, or fails, gets a row that says so; only what ends the
// comparison is an error.
func (s settings) compare(ctx context.Context, tools []tool.Tool, p place) ([]row, error) {
	rows := make([]row, len(tools))
	for i, t := range tools {
		rows[i] = row{tool: t.Name(), without: obstacle(t, p)}
	}
	if err := s.undisturbed(ctx, tools, p, rows); err != nil {
		return nil, err
	}
	for round := range s.runs {
		for i, t := range tools {
			r := &rows[i]
			if r.without != "" {
				continue
			}
			one, err := deliver(ctx, t, p, s.sizeIn(p), s.seed+uint64(round))
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				r.without = oneLine(fmt.Sprintf("failed in run %d: %v", round+1, err))
				progress("  %d: %-24s %s", round+1, r.tool, r.without)
				continue
			}
			progress("  %d: %-24s %.2f s, CPU %.2f s", round+1, r.tool, one.took.Seconds(), one.processor.Seconds())
			r.samples = append(r.samples, one)
		}
	}
	var base []sample
	if i := slices.IndexFunc(rows, func(r row) bool { return r.tool == p.baseline() && r.without == "" }); i >= 0 {
		base = rows[i].samples
	}
	for i := range rows {
		if rows[i].without == "" {
			s.summarize(&rows[i], p, base)
		}
	}
	return rows, nil
}

// undisturbed measures what each tool sends where nothing is lost, if something is in the place: what it sends there beyond that, it sends again.
func (s settings) undisturbed(ctx context.Context, tools []tool.Tool, p place, rows []row) error {
	if p.clean == nil {
		return nil
	}
	clean := p
	clean.build = p.clean
	for i, t := range tools {
		if rows[i].without != "" {
			continue
		}
		one, err := deliver(ctx, t, clean, s.sizeIn(p), s.seed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			rows[i].without = oneLine(fmt.Sprintf("failed where nothing is lost: %v", err))
			progress("  -: %-24s %s", rows[i].tool, rows[i].without)
			continue
		}
		rows[i].clean = float64(one.uplink)
	}
	return nil
}

// oneLine shortens a text to what fits in a table.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// obstacle returns why a tool cannot work in a place; empty if it can.
func obstacle(t tool.Tool, p place) string {
	if missing := tool.Missing(t); len(missing) > 0 {
		return "missing: " + strings.Join(missing, ", ")
	}
	if t.Multicast() && p.routed {
		return "not possible: multicast does not pass the routers"
	}
	return ""
}

// sizeIn returns how big the file or directory is in a place.
func (s settings) sizeIn(p place) link.Bytes {
	if s.size > 0 {
		return s.size
	}
	return p.size
}

func (s settings) summarize(r *row, p place, base []sample) {
	n, size := p.build(s.seed), s.sizeIn(p)
	median := func(figure func(sample) float64) float64 {
		var values []float64
		for _, one := range r.samples {
			values = append(values, figure(one))
		}
		return measure.Median(values)
	}
	delivered := float64(size) * float64(len(n.receivers)) / 1e9
	r.took = median(func(one sample) float64 { return one.took.Seconds() })
	r.fast = median(lastButOne)
	r.goodput = float64(size) * 8 / r.took / float64(link.Mbit)
	if n.rate > 0 {
		r.stretch = r.took / n.rate.Time(size).Seconds()
	}
	r.seconds = median(func(one sample) float64 { return one.processor.Seconds() })
	r.control = median(func(one sample) float64 { return one.control.Seconds() })
	r.cpu = r.seconds / delivered
	r.peak = median(func(one sample) float64 { return float64(one.peak) }) / float64(link.MiB)
	r.relay = median(func(one sample) float64 { return float64(one.relay) }) / float64(link.MiB)
	r.copies = median(func(one sample) float64 { return float64(one.uplink) }) / float64(size)
	r.again = median(func(one sample) float64 { return (float64(one.uplink) - r.clean) / float64(max(one.lost, 1)) })
	r.dropped = median(func(one sample) float64 { return one.dropped })
	r.ratio = ratio(r.samples, base)
}

// ratio returns the median of the times divided by those of the baseline in the same round.
func ratio(samples, base []sample) float64 {
	var ratios []float64
	for i := range min(len(samples), len(base)) {
		ratios = append(ratios, samples[i].took.Seconds()/base[i].took.Seconds())
	}
	if len(ratios) == 0 {
		return 0
	}
	return measure.Median(ratios)
}

// lastButOne returns when all receivers except the last had the file.
func lastButOne(one sample) float64 {
	if len(one.landed) < 2 {
		return 0
	}
	return one.landed[len(one.landed)-2].Seconds()
}

// orNone writes a figure, or nothing if there is none.
func orNone(figure float64) string {
	if figure == 0 {
		return ""
	}
	return measure.Short(figure)
}

func columns(p place) []string {
	all := []string{
		"tool", "seconds", "÷ " + p.baseline(), "all but one, s", "goodput, Mbit/s", "stretch", "CPU s", "CPU s of control", "CPU s per GB delivered",
		"peak memory, MiB", "agent's, MiB", "copies on the sender's link",
	}
	if p.clean != nil {
		all = append(all, "sent again ÷ lost, bytes")
	}
	if p.queue {
		all = append(all, "dropped before the last cable, %")
	}
	return all
}

// figures are what a row has in the columns of a place.
func (r row) figures(p place) []string {
	all := []string{
		r.tool, measure.Short(r.took), orNone(r.ratio), orNone(r.fast), measure.Short(r.goodput), orNone(r.stretch), measure.Short(r.seconds),
		orNone(r.control), measure.Short(r.cpu), measure.Short(r.peak), orNone(r.relay), measure.Short(r.copies),
	}
	if p.clean != nil {
		all = append(all, measure.Short(r.again))
	}
	if p.queue {
		all = append(all, measure.Short(100*r.dropped))
	}
	return all
}

// sent says what a place sends.
func (s settings) sent(p place) string {
	size := float64(s.sizeIn(p)) / float64(link.MiB)
	if p.directory {
		return fmt.Sprintf(`A directory of %.4g MiB in %d files. Every receiver has an earlier version of it: since then, the content of %d files has changed (but not
their size), one file has been added, and one removed. To find that, groupcast compares contents, and rsync sizes and times. Goodput, stretch,
CPU per GB and copies are relative to the size of the whole directory. Every copy`, size, fileCount, changedCount)
	}
	return fmt.Sprintf("One file of %.4g MiB, every copy", size)
}

func (s settings) report(p place, rows []row) *measure.Result {
	t := measure.Table{Title: "Tools", Columns: columns(p)}
	height, label := func(r row) float64 { return r.stretch }, "stretch"
	chart := measure.Chart{
		File: "stretch", Title: "Stretch: last receiver ÷ (size ÷ line rate)", Kind: measure.Columns,
		Series: []measure.Series{{Name: p.name}},
	}
	if p.build(s.seed).rate == 0 {
		chart.File, chart.Title = "seconds", "Time until the last receiver has all"
		height, label = func(r row) float64 { return r.took }, "seconds"
	}
	chart.Y = measure.Axis{Label: label}
	for _, r := range rows {
		if r.without != "" {
			t.Rows = append(t.Rows, append([]string{r.tool, r.without}, make([]string, len(t.Columns)-2)...))
			continue
		}
		t.Rows = append(t.Rows, r.figures(p))
		at := float64(len(chart.Categories))
		chart.Categories = append(chart.Categories, r.tool)
		chart.Series[0].Points = append(chart.Series[0].Points, measure.Point{X: at, Y: height(r)})
	}
	result := &measure.Result{
		Title: "Peers: " + p.about, Seed: s.seed, Origin: s.origin, Tables: []measure.Table{t},
		About: s.sent(p) + fmt.Sprintf(` compared by SHA-256, medians of %d rounds in which the tools take turns, a new network for
each delivery. Times are those of the last receiver, from the start of the sending and fetching programs (servers, agents and members run before).
CPU and memory are of the tools' programs from their start to their end; what the kernel does for packets on emulated links is not in
them, and the manager of groupcast, which no byte of what is sent passes, is in a column of its own.`, s.runs),
	}
	if len(chart.Categories) > 0 {
		result.Charts = []measure.Chart{chart}
	}
	return result
}
