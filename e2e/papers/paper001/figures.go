package paper001

import (
	"strings"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// panel returns a chart with a line for each controller.
func panel(file, title string, all []*played, x, y measure.Axis, kind measure.Kind, line func(*played) measure.Series) measure.Chart {
	chart := measure.Chart{File: file, Title: title, Kind: kind, X: x, Y: y}
	for _, p := range all {
		series := line(p)
		series.Name = p.Controller
		chart.Series = append(chart.Series, series)
	}
	return chart
}

var relative = measure.Axis{Label: "Cumulative relative frequency", Max: 1}

func clockOf(all []*played) measure.Axis {
	return measure.Axis{Label: "Simulation time [sec]", Max: all[0].until.Seconds()}
}

func established(number string, all []*played) measure.Chart {
	return panel("figure"+number, "Figure "+paren(number)+": connection establishment time", all, measure.Axis{Label: "Connection establishment time [sec]"}, relative, measure.Steps,
		func(p *played) measure.Series { return measure.Distribution("", p.busy.Established) })
}

func took(number string, all []*played) measure.Chart {
	return panel("figure"+number, "Figure "+paren(number)+": upload of 30 KB", all, measure.Axis{Label: "Data transfer time [sec]"}, relative, measure.Steps,
		func(p *played) measure.Series { return measure.Distribution("", p.busy.Took) })
}

func utilized(number string, all []*played) measure.Chart {
	return panel("figure"+number, "Figure "+paren(number)+": access link utilization", all, clockOf(all), measure.Axis{Label: "Utilization [%]", Max: 105}, measure.Lines,
		func(p *played) measure.Series { return p.clock(p.Utilization) })
}

func queued(number string, all []*played) measure.Chart {
	return queuedAs("figure"+number, "Figure "+paren(number)+": average queue length", all)
}

func queuedAs(file, title string, all []*played) measure.Chart {
	return panel(file, title, all, clockOf(all), measure.Axis{Label: "Average queue length [KBytes]"}, measure.Lines,
		func(p *played) measure.Series {
			kilobytes := measure.Series{}
			for _, point := range p.clock(p.Queue).Points {
				kilobytes.Points = append(kilobytes.Points, measure.Point{X: point.X, Y: point.Y / float64(link.KiB)})
			}
			return kilobytes
		})
}

func fair(number string, all []*played) measure.Chart {
	return panel("figure"+number, "Figure "+paren(number)+": fairness among long connections", all, clockOf(all), measure.Axis{Label: "Fairness index", Max: 1}, measure.Lines,
		func(p *played) measure.Series { return p.clock(p.fairness(fairSpan)) })
}

func lost(number string, all []*played) measure.Chart {
	return panel("figure"+number, "Figure "+paren(number)+": packet loss rate", all, clockOf(all), measure.Axis{Label: "Packet loss rate [%]"}, measure.Lines,
		func(p *played) measure.Series { return p.clock(p.LossRate(lossSpan)) })
}

// fairSpan and lossSpan are how many seconds of a run a point covers.
const fairSpan, lossSpan = 2, 1

// paren writes 8a as 8(a).
func paren(number string) string {
	last := len(number) - 1
	return number[:last] + "(" + number[last:] + ")"
}

// shared shows one controller's groups over time, with the total and the best possible.
func shared(file, title string, p *played) measure.Chart {
	chart := measure.Chart{
		File: file + "-" + p.Controller, Title: title + ", " + p.Controller, X: clockOf([]*played{p}),
		Y: measure.Axis{Label: "Throughput [Mbps]", Max: 1.1 * float64(p.access) / float64(link.Mbit)},
	}
	for _, name := range p.groups() {
		line := p.clock(p.group(name))
		line.Name = strings.TrimSpace("flow " + name)
		chart.Series = append(chart.Series, line)
	}
	if len(p.best) == 0 {
		return chart
	}
	total := p.clock(p.group(""))
	total.Name = "total"
	best := measure.Series{Name: "best"}
	for _, phase := range p.best {
		for _, x := range []float64{phase.from.Seconds(), phase.until.Seconds()} {
			best.Points = append(best.Points, measure.Point{X: x, Y: float64(phase.total()) / float64(link.Mbit)})
		}
	}
	chart.Series = append(chart.Series, total, best)
	return chart
}

func sharedByAll(file, title string, all []*played) (charts []measure.Chart) {
	for _, p := range all {
		charts = append(charts, shared(file, title, p))
	}
	return charts
}
