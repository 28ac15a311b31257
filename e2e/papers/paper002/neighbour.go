package paper002

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
	algo "github.com/groupcast/groupcast/internal/algo/parallel"
)

// Neighbour shows what parallel connections do to a neighbour that has one connection.
var Neighbour = experiment.Experiment{
	Paper: "002",
	Name:  "neighbour",
	About: "section 2, \"subject to fair use of the network\": what is left to a single connection beside a link that tunes itself",
	Run:   neighbour,
}

const (
	// sharedTime is how long both share the path; the second half of it is measured.
	sharedTime = 80 * time.Second
	// many is a number of stripes that has no regard for others.
	many = 8
)

// beside is a link beside which a neighbour is measured.
type beside struct {
	name   string
	bounds algo.Bounds
}

var links = []beside{
	{"one stripe", algo.Bounds{Least: 1, Most: 1}},
	{"tunes itself", algo.Bounds{Least: 1, Most: algo.Most}},
	{fmt.Sprintf("%d stripes, whatever comes", many), algo.Bounds{Least: many, Most: many}},
}

// share is what both got.
type share struct {
	beside
	alone, neighbour link.Rate // of the neighbour, before and beside the link
	link             link.Rate
	choices          []string
}

func neighbour(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	if options.Duration == 0 {
		options.Duration = sharedTime
	}
	var shares []share
	for _, b := range links {
		s, err := shareWith(ctx, b, options)
		if err != nil {
			return nil, fmt.Errorf("beside a link with %s: %w", b.name, err)
		}
		options.Progress("  %s: the neighbour has %v alone, %v beside a link with %v", b.name, s.alone, s.neighbour, s.link)
		shares = append(shares, s)
	}
	return reportShares(options, shares), nil
}

// shareWith makes a long download and a link share a path that loses packets only in its queue.
func shareWith(ctx context.Context, b beside, options experiment.Options) (s share, err error) {
	n := across(options.Seed, link.Shape{Rate: pathRate, Delay: pathDelay, Queue: link.Packets(pathQueue)})
	defer n.Close()
	if err := n.Start(); err != nil {
		return s, err
	}
	source, err := traffic.Serve(n.florida, port, congestion)
	if err != nil {
		return s, err
	}
	defer source.Close()
	ctx, cancel := context.WithCancel(ctx)
	bulk := &traffic.Bulk{Source: source, To: n.virginia}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = bulk.Run(ctx) })
	s.beside = b
	half := options.Duration / 2
	bulk.Goodput(ctx, half/8) // slow start
	s.alone, _ = bulk.Goodput(ctx, half/4)

	t := &trial{from: n.florida, to: n.virginia, port: linkPort, bounds: b.bounds, congestion: congestion, size: 1024 * link.MiB}
	var failed error
	running.Go(func() {
		if _, failed = t.run(ctx); failed != nil && ctx.Err() != nil {
			failed = nil // its time is over
		}
	})
	bulk.Goodput(ctx, half)
	before, carried := bulk.Received.Load(), n.path.Read().Count.Carried.Bytes
	start := time.Now()
	s.neighbour, _ = bulk.Goodput(ctx, half)
	both := float64(n.path.Read().Count.Carried.Bytes-carried) * 8 / time.Since(start).Seconds()
	s.link = link.Rate(both) - link.Rate(float64(bulk.Received.Load()-before)*8/time.Since(start).Seconds())
	cancel()
	running.Wait()
	s.choices = t.choices
	return s, errors.Join(failed)
}

func reportShares(options experiment.Options, shares []share) *measure.Result {
	r := &measure.Result{
		Title:  "Paper 002, a neighbour",
		Seed:   options.Seed,
		Origin: options.Origin,
		About: fmt.Sprintf(`A path of %v with %v each way and a queue of %d packets loses nothing by itself. A plain TCP connection (%s) has it alone; then a link of
the product's comes, with as much to send as it likes. What each has is measured over the last %v; the link's rate is what the path carried beside the
connection's bytes, headers and what was sent again among it.`, pathRate, pathDelay, pathQueue, congestion, options.Duration/2),
	}
	table := measure.Table{Title: "Who has what, in Mbit/s", Columns: []string{"the link", "neighbour alone", "neighbour beside it", "the link"}}
	reasons := measure.Table{Title: "What the tuner said", Columns: []string{"the link", "time and choice"}}
	chart := measure.Chart{File: "neighbour", Title: "A single connection and a link on one path", Kind: measure.Columns, Y: measure.Axis{Label: "Rate [Mbit/s]"}}
	one, other := measure.Series{Name: "the neighbour"}, measure.Series{Name: "the link"}
	for i, s := range shares {
		table.Rows = append(table.Rows, []string{s.name, measure.Short(mbit(s.alone)), measure.Short(mbit(s.neighbour)), measure.Short(mbit(s.link))})
		one.Points = append(one.Points, measure.Point{X: float64(i), Y: mbit(s.neighbour)})
		other.Points = append(other.Points, measure.Point{X: float64(i), Y: mbit(s.link)})
		chart.Categories = append(chart.Categories, s.name)
		for _, choice := range s.choices {
			reasons.Rows = append(reasons.Rows, []string{s.name, choice})
		}
	}
	chart.Series = []measure.Series{one, other}
	r.Tables, r.Charts = []measure.Table{table, reasons}, []measure.Chart{chart}
	return r
}
