package paper002

import (
	"fmt"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	algo "github.com/groupcast/groupcast/internal/algo/parallel"
)

func report(options experiment.Options, o outcome, late link.Lateness) *measure.Result {
	r := &measure.Result{
		Title:  "Paper 002, parallel connections and socket buffers",
		Seed:   options.Seed,
		Origin: options.Origin,
		About: fmt.Sprintf(`One sender, one receiver, and a path of %v with %v each way, %.1f %% of packets lost on the way there, and
a queue of %d packets. Plain TCP sockets (%s) with buffers of a fixed size at both ends, for %v in each cell, the handshake
and the slow start among it. The paper sent 23.3 MB and measured how long that took; the times here are what 23.3 MB take at the rate measured. Beside them the product's
own link, which is told nothing but that it may have 1 to %d stripes, with the kernel's buffers, and with the congestion control that deliveries have by default (%s), and
then with that of the sockets: it carries the paper's 23.3 MB, and its time is from the first SYN, TLS handshakes among it, to the last byte in the file.`,
			pathRate, pathDelay, 100*pathLoss, pathQueue, congestion, options.Duration, algo.Most, today),
		Tables: []measure.Table{o.tuning(), o.table1(), o.table2(), o.whole(), o.verdicts(), o.reasons()},
		Charts: []measure.Chart{o.chart1(), o.chart2(), o.figure2()},
	}
	r.Add("emulator late, 99 %", float64(late.Within(0.99).Microseconds()), "µs")
	return r
}

func mbit(rate link.Rate) float64 { return float64(rate) / float64(link.Mbit) }

// seconds is how long the paper's transfer takes at a rate.
func seconds(rate link.Rate) float64 { return float64(transferred) * 8 / float64(rate) }

func (g grid) best() cell {
	var found cell
	for _, c := range cells() {
		if g[c] > g[found] {
			found = c
		}
	}
	return found
}

// tuning compares the product's link with the best that sockets reached.
func (o outcome) tuning() measure.Table {
	t := measure.Table{Title: "A link that tunes itself", Columns: []string{"", "Mbit/s", "of the grid's best cell", "times the untuned connection"}}
	row := func(name string, rate link.Rate) {
		t.Rows = append(t.Rows, []string{
			name, measure.Short(mbit(rate)), measure.Short(float64(rate) / float64(o.grid[o.best()])), measure.Short(float64(rate) / float64(o.grid[cell{smallest, 1}])),
		})
	}
	row("one connection with 8192 bytes, untuned", o.grid[cell{smallest, 1}])
	row("the grid's best cell: "+o.best().String(), o.grid[o.best()])
	for _, with := range o.links {
		row(with.congestion+": a link of one stripe", with.one.rate)
		for i, one := range with.tuned {
			row(fmt.Sprintf("%s: a link that tunes itself, %d", with.congestion, i+1), one.rate)
		}
	}
	return t
}

// reasons shows what the links' tuners said.
func (o outcome) reasons() measure.Table {
	t := measure.Table{Title: "What the tuner said", Columns: []string{"link", "time and choice"}}
	for _, with := range o.links {
		for i, one := range with.tuned {
			for _, choice := range one.choices {
				t.Rows = append(t.Rows, []string{fmt.Sprint(with.congestion, " ", i+1), choice})
			}
		}
	}
	return t
}

func (g grid) table1() measure.Table {
	t := measure.Table{Title: "Table 1: socket buffer sizes, one connection", Columns: []string{"buffer, bytes", "transfer time, s", "KB/s", "Mbit/s", "the paper's Mbit/s"}}
	for _, level := range levels {
		rate := g[cell{level, 1}]
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(int64(level)), measure.Short(seconds(rate)), measure.Short(float64(rate) / 8000), measure.Short(mbit(rate)), measure.Short(paperTable1[level]),
		})
	}
	return t
}

func (g grid) table2() measure.Table {
	t := measure.Table{Title: "Table 2: number of connections, 8192 bytes", Columns: []string{"connections", "transfer time, s", "KB/s", "Mbit/s", "the paper's Mbit/s"}}
	for i, paper := range paperTable2 {
		rate := g[cell{smallest, i + 1}]
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(i + 1), measure.Short(seconds(rate)), measure.Short(float64(rate) / 8000), measure.Short(mbit(rate)), measure.Short(paper),
		})
	}
	return t
}

func (g grid) whole() measure.Table {
	t := measure.Table{Title: "Every cell, Mbit/s", Columns: []string{"connections"}}
	for _, level := range levels {
		t.Columns = append(t.Columns, fmt.Sprintf("%d bytes", int64(level)))
	}
	for n := 1; n <= figureMost; n++ {
		row := []string{fmt.Sprint(n)}
		for _, level := range levels {
			text := ""
			if rate, measured := g[cell{level, n}]; measured {
				text = measure.Short(mbit(rate))
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (g grid) chart1() measure.Chart {
	chart := measure.Chart{File: "table1", Title: "Table 1: transfer rate for varying socket buffer sizes", Kind: measure.Columns, Y: measure.Axis{Label: "Transfer rate [Mbit/s]"}}
	here, paper := measure.Series{Name: "here"}, measure.Series{Name: "the paper"}
	for i, level := range levels {
		chart.Categories = append(chart.Categories, fmt.Sprint(int64(level)))
		here.Points = append(here.Points, measure.Point{X: float64(i), Y: mbit(g[cell{level, 1}])})
		paper.Points = append(paper.Points, measure.Point{X: float64(i), Y: paperTable1[level]})
	}
	chart.Series = []measure.Series{here, paper}
	return chart
}

func (g grid) chart2() measure.Chart {
	chart := measure.Chart{
		File: "table2", Title: "Table 2: transfer rate for varying numbers of connections", Kind: measure.Marks,
		X: measure.Axis{Label: "Number of connections"}, Y: measure.Axis{Label: "Transfer rate [Mbit/s]", Max: 20},
	}
	for _, level := range levels {
		line := measure.Series{Name: fmt.Sprintf("%d bytes", int64(level))}
		for n := 1; n <= tableMost; n++ {
			line.Points = append(line.Points, measure.Point{X: float64(n), Y: mbit(g[cell{level, n}])})
		}
		chart.Series = append(chart.Series, line)
	}
	paper := measure.Series{Name: "the paper, 8192 bytes"}
	for i, rate := range paperTable2 {
		paper.Points = append(paper.Points, measure.Point{X: float64(i + 1), Y: rate})
	}
	chart.Series = append(chart.Series, paper)
	return chart
}

func (g grid) figure2() measure.Chart {
	line := measure.Series{Name: "32768 bytes"}
	for n := 1; n <= figureMost; n++ {
		line.Points = append(line.Points, measure.Point{X: float64(n), Y: seconds(g[cell{best, n}])})
	}
	return measure.Chart{
		File: "figure2", Title: "Figure 2: transfer time for varying numbers of connections", Kind: measure.Marks,
		X: measure.Axis{Label: "Number of connections", Max: figureMost}, Y: measure.Axis{Label: "Transfer time of 23.3 MB [s]"}, Series: []measure.Series{line},
	}
}
