package paper000

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/sdk"
)

// Split is figures 6 to 12: our own processes compared with unicast.
var Split = experiment.Experiment{
	Paper: "000",
	Name:  "split",
	About: "figures 6 to 12: session agents at the routers, hop and end-to-end, beside unicast; about 16 minutes",
	Run:   compare,
}

// Defaults of a run. They are smaller than the paper's, so that all points together take a quarter of an hour.
const (
	splitDuration = 8 * time.Second
	splitRuns     = 1
	// splitScale makes rates, sizes and queues a fifth of the paper's: split connections
	// fill up to 17 links at once, which is more than two processors can emulate at 100 Mbit/s.
	splitScale = 5
	// splitAhead is how many deliveries a sender has in progress at most: each uses a new
	// connection, so the next ones start while one is still slow.
	splitAhead = 4
)

var splitLoads = []float64{0.2, 0.6, 1}

// method is a line in the figures, by the paper's name.
type method string

const (
	byUnicast  method = "Unicast"
	byEndToEnd method = "End-End"
	byHop      method = "Node-Node"
	// As the product delivers objects: with new connections for each.
	newEndToEnd method = "End-End, new"
	newHop      method = "Node-Node, new"
	// With a congestion control of today.
	bbrHop method = "Node-Node, bbr"
)

var methods = []method{byUnicast, byEndToEnd, byHop, newEndToEnd, newHop, bbrHop}

// methodsAt returns the methods that are measured at a point. The paper's are measured at each. Others are measured with one
// member in each network, at the lowest and the highest load: another congestion control with one sender, and new connections
// with four senders at the shorter delay.
func (m measured) methodsAt(p point) []method {
	switch {
	case p.members > 1, !slices.Contains(m.ends(), p.load), p.senders > 1 && p.trunkDelay != delays[0]:
		return methods[:3]
	case p.senders > 1:
		return methods[:5]
	}
	return methods
}

// manyTimes is how many times as long a run with four senders takes, as the caches have to fill.
const manyTimes = 2

// measured holds the means over all runs of each method at each point.
type measured struct {
	scale   int
	loads   []float64
	members []int
	at      map[method]map[point]outcome
}

func compare(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	if options.Duration == 0 {
		options.Duration = splitDuration
	}
	if options.Runs == 0 {
		options.Runs = splitRuns
	}
	if options.Scale == 0 {
		options.Scale = splitScale
	}
	m := measured{scale: options.Scale, loads: options.Loads, members: options.Members, at: map[method]map[point]outcome{}}
	if len(m.loads) == 0 {
		m.loads = splitLoads
	}
	if len(m.members) == 0 {
		m.members = []int{1, 3, 5}
	}
	for _, p := range m.points() {
		for _, how := range m.methodsAt(p) {
			o, err := how.repeat(ctx, p, options)
			if err != nil {
				return nil, fmt.Errorf("%s, %v: %w", how, p, err)
			}
			options.Progress("  %v, %s: uplink %.1f, reception %.2f, effective %.3f, cache %.3f; emulator 99 %% within %v %s",
				p, how, o.consumption, o.reception, o.effective(), o.cache, o.late.Within(0.99), o.complaint)
			if m.at[how] == nil {
				m.at[how] = map[point]outcome{}
			}
			m.at[how][p] = o
		}
	}
	return m.report(options), nil
}

// points returns the points of all figures, each once.
func (m measured) points() (list []point) {
	add := func(p point) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for _, delay := range delays {
		for _, load := range m.loads {
			add(m.one(1, delay, load))
			add(m.many(delay, load))
		}
		for _, members := range m.members {
			for _, load := range m.ends() {
				add(m.one(members, delay, load))
			}
		}
	}
	return list
}

// ends returns the lowest and the highest load, which are lines in figure 6.
func (m measured) ends() []float64 { return slices.Compact([]float64{m.low(), m.high()}) }

func (m measured) low() float64  { return slices.Min(m.loads) }
func (m measured) high() float64 { return slices.Max(m.loads) }

func (m measured) one(members int, delay time.Duration, load float64) point {
	return point{senders: 1, members: members, trunkDelay: delay, load: load, scale: m.scale}
}

// many returns a point with four senders.
func (m measured) many(delay time.Duration, load float64) point {
	return point{senders: 4, members: 1, trunkDelay: delay, load: load, scale: m.scale}
}

// repeat returns the mean of all runs at a point.
func (how method) repeat(ctx context.Context, p point, options experiment.Options) (mean outcome, err error) {
	share := 1 / float64(options.Runs)
	for i := range options.Runs {
		duration := options.Duration
		if p.senders > 1 {
			duration *= manyTimes
		}
		o, err := how.run(ctx, p, options.Seed+uint64(i), duration)
		if err != nil {
			return outcome{}, err
		}
		mean.consumption += o.consumption * share
		mean.sent += o.sent * share
		mean.reception += o.reception * share
		mean.near += o.near * share
		mean.far += o.far * share
		mean.cache += o.cache * share
		mean.tally.add(o.tally)
		mean.sources, mean.late = o.sources, o.late
		mean.complaint += o.complaint
	}
	return mean, nil
}

func (how method) run(ctx context.Context, p point, seed uint64, duration time.Duration) (outcome, error) {
	switch how {
	case byHop:
		return split(ctx, sdk.Hop, p, tuning{lasting: true}, seed, duration)
	case byEndToEnd:
		return split(ctx, sdk.EndToEnd, p, tuning{lasting: true}, seed, duration)
	case bbrHop:
		return split(ctx, sdk.Hop, p, tuning{lasting: true, congestion: string(sdk.BBR)}, seed, duration)
	case newHop:
		return split(ctx, sdk.Hop, p, tuning{ahead: splitAhead}, seed, duration)
	case newEndToEnd:
		return split(ctx, sdk.EndToEnd, p, tuning{ahead: splitAhead}, seed, duration)
	}
	return unicast(ctx, p, seed, duration)
}

func (m measured) report(options experiment.Options) *measure.Result {
	return &measure.Result{
		Title:  "Paper 000, figures 6 to 12",
		Seed:   options.Seed,
		Origin: options.Origin,
		About: fmt.Sprintf(`Figure 5 as in table I, but rates, sizes and queues divided by %d: links of %v and 10 ms, 10 or 100 ms between the
routers, queues of %d packets, %.3g MB at a time at random times for a given load, reno with SACK. All rates here are multiplied by %[1]d again,
so that 100 is a full link as in the paper. Unicast is one lasting TCP connection from a sender to each receiver, as in the paper. Node-Node
(hop) and End-End (end-to-end) are a session agent at each router and a process for each member, with TLS; a sender sends one stream, over connections
that last, as the paper's do. The lines called "new" are the same with an object for every %.3[4]g MB, each with new connections, %d of a sender
under way at once; the one called "bbr" has that in place of reno. A member counts what it has on its disk. The manager is reached past the network.
The cache ratio is of the most that SA1 was seen to cache at once, looked at five times a second, or of the most that it says it cached of one delivery.
%d run(s) of %v at a point, twice that with four senders; the paper has 5 of 100 s.`, m.scale, rate/link.Rate(m.scale), outputBuffer/m.scale,
			float64(dataSize)/float64(m.scale)/1e6, splitAhead, options.Runs, options.Duration),
		Tables: []measure.Table{m.verdicts(), m.table()},
		Charts: m.figures(),
	}
}

func (m measured) table() measure.Table {
	t := measure.Table{Title: "Every point", Columns: []string{
		"method", "senders", "members per network", "trunk delay", "load", "uplink, Mbit/s", "offered, Mbit/s", "reception, Mbit/s", "effective", "cache ratio",
		"deliveries complete", "under way at the end", "failed", "emulator late, 99 %",
	}}
	for _, p := range m.points() {
		for _, how := range m.methodsAt(p) {
			o := m.at[how][p]
			row := []string{
				string(how), fmt.Sprint(p.senders), fmt.Sprint(p.members), p.trunkDelay.String(), measure.Short(p.load), measure.Short(o.consumption),
				measure.Short(o.sent), measure.Short(o.reception), measure.Short(o.effective()), "", "", "", "", o.late.Within(0.99).String(),
			}
			if how != byUnicast {
				row[9], row[10] = measure.Short(o.cache), fmt.Sprint(o.tally.complete)
				row[11], row[12] = fmt.Sprint(o.tally.running+o.tally.waiting), fmt.Sprint(o.tally.unfulfilled)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// index is one of the indices of 000 §IV-B.
type index func(outcome) float64

func (m measured) figures() []measure.Chart {
	consumption := func(o outcome) float64 { return o.consumption }
	reception := func(o outcome) float64 { return o.reception }
	cache := func(o outcome) float64 { return 100 * o.cache }
	bandwidth := measure.Axis{Label: "Bandwidth consumption [Mb/s]", Max: 110}
	throughput := measure.Axis{Label: "Reception throughput [Mb/s]", Max: 110}
	effective := measure.Axis{Label: "Effective throughput", Max: 1.1}
	return []measure.Chart{
		m.figure6(bandwidth, consumption),
		m.oneToMany("figure7", "Figure 7: reception throughput", throughput, reception),
		m.oneToMany("figure8", "Figure 8: effective throughput", effective, outcome.effective),
		m.manyToMany("figure9", "Figure 9: average consumption of the senders' links", bandwidth, consumption),
		m.manyToMany("figure10", "Figure 10: average reception throughput", throughput, reception),
		m.manyToMany("figure11", "Figure 11: average effective throughput", effective, outcome.effective),
		m.figure12(measure.Axis{Label: "Cache ratio [%]"}, cache),
	}
}

var loadAxis = measure.Axis{Label: "Traffic load", Max: 1}

func (m measured) figure6(y measure.Axis, value index) measure.Chart {
	chart := measure.Chart{
		File: "figure6", Title: "Figure 6: bandwidth consumption between ma1 and SA1", Kind: measure.Marks, Y: y,
		X: measure.Axis{Label: "Number of members in each network", Min: 0.5, Max: mostMembers + 0.5},
	}
	for _, load := range m.ends() {
		for _, how := range methods[:3] {
			line := measure.Series{Name: fmt.Sprintf("%s, load %.1f", how, load)}
			for _, members := range m.members {
				line.Points = append(line.Points, measure.Point{X: float64(members), Y: value(m.at[how][m.one(members, delays[0], load)])})
			}
			chart.Series = append(chart.Series, line)
		}
	}
	return chart
}

// line returns a line with a mark at each load at which the method was measured.
func (m measured) line(name string, how method, value index, at func(load float64) point) measure.Series {
	line := measure.Series{Name: name}
	for _, load := range m.loads {
		if o, isMeasured := m.at[how][at(load)]; isMeasured {
			line.Points = append(line.Points, measure.Point{X: load, Y: value(o)})
		}
	}
	return line
}

func (m measured) oneToMany(file, title string, y measure.Axis, value index) measure.Chart {
	chart := measure.Chart{File: file, Title: title, Kind: measure.Marks, X: loadAxis, Y: y}
	for _, delay := range delays {
		for _, how := range m.methodsAt(m.one(1, delay, m.high())) {
			chart.Series = append(chart.Series, m.line(named(how, delay), how, value, func(load float64) point { return m.one(1, delay, load) }))
		}
	}
	return chart
}

func (m measured) manyToMany(file, title string, y measure.Axis, value index) measure.Chart {
	chart := measure.Chart{File: file, Title: title, Kind: measure.Marks, X: loadAxis, Y: y}
	for _, delay := range delays {
		for _, how := range m.methodsAt(m.many(delay, m.high())) {
			chart.Series = append(chart.Series, m.line(named(how, delay), how, value, func(load float64) point { return m.many(delay, load) }))
		}
	}
	return chart
}

func (m measured) figure12(y measure.Axis, value index) measure.Chart {
	chart := measure.Chart{File: "figure12", Title: "Figure 12: cache ratio of SA1", Kind: measure.Marks, X: loadAxis, Y: y}
	for _, delay := range delays {
		for _, how := range []method{byEndToEnd, byHop} {
			chart.Series = append(chart.Series,
				m.line(named(how, delay)+", 1 sender", how, value, func(load float64) point { return m.one(1, delay, load) }),
				m.line(named(how, delay)+", 4 senders", how, value, func(load float64) point { return m.many(delay, load) }))
		}
	}
	return chart
}

func named(how method, delay time.Duration) string {
	return fmt.Sprintf("%s (%d ms)", how, delay.Milliseconds())
}
