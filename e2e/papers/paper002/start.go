package paper002

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	algo "github.com/groupcast/groupcast/internal/algo/parallel"
)

// Start is an experiment of our own: how much of a transfer has come some seconds after its first SYN.
var Start = experiment.Experiment{
	Paper: "002",
	Name:  "start",
	About: "the first seconds of long paths with short and long queues: a plain connection, and a link that tunes itself",
	Run:   start,
}

// beginning is a path on which a transfer begins.
type beginning struct {
	rate  link.Rate
	delay time.Duration // each way
	queue int           // packets
	loss  float64       // at random
}

var beginnings = []beginning{
	{20 * link.Mbit, 100 * time.Millisecond, 40, 0},
	{100 * link.Mbit, 50 * time.Millisecond, 64, 0},
	{100 * link.Mbit, 50 * time.Millisecond, 800, 0},
	{100 * link.Mbit, 50 * time.Millisecond, 800, 0.002},
}

// lossy is the path of which there is something to find out: it loses packets by itself.
var lossy = beginnings[3]

func (b beginning) String() string {
	text := fmt.Sprintf("%v, %v, %d packets", b.rate, 2*b.delay, b.queue)
	if b.loss > 0 {
		text += fmt.Sprintf(", %.1f %% lost", 100*b.loss)
	}
	return text
}

// marks are the times at which it is checked how much has come, and startRuns is how often each transfer begins.
var marks = []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second}

const startRuns = 3

// starter begins a transfer, and returns what has come at the marks.
type starter struct {
	name  string
	begin func(ctx context.Context, n *network) ([]float64, error)
}

func starters() []starter {
	return []starter{
		{"a plain connection", func(ctx context.Context, n *network) ([]float64, error) { return n.plain(ctx) }},
		{"a link of one stripe", func(ctx context.Context, n *network) ([]float64, error) { return n.startLink(ctx, 1, false) }},
		{"a link that tunes itself", func(ctx context.Context, n *network) ([]float64, error) { return n.startLink(ctx, algo.Most, false) }},
		{"a link to a known peer", func(ctx context.Context, n *network) ([]float64, error) { return n.startLink(ctx, algo.Most, true) }},
	}
}

func (s starter) on(ctx context.Context, b beginning, seed uint64) ([]float64, error) {
	n := across(seed, link.Shape{Rate: b.rate, Delay: b.delay, Queue: link.Packets(b.queue), Loss: b.loss})
	defer n.Close()
	if err := n.Start(); err != nil {
		return nil, err
	}
	return s.begin(ctx, n)
}

// plain begins with a TCP connection.
func (n *network) plain(ctx context.Context) ([]float64, error) {
	source, err := traffic.Serve(n.florida, port, today)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	var received atomic.Int64
	return during(ctx, func() uint64 { return uint64(received.Load()) }, func(ctx context.Context) error {
		_, err := source.Fetch(ctx, n.virginia, 1024*link.MiB, &received)
		return err
	})
}

// startLink begins with a link of the product, which has a connection to its peer already if that is known.
func (n *network) startLink(ctx context.Context, most int, isKnown bool) ([]float64, error) {
	t := &trial{from: n.florida, to: n.virginia, port: linkPort, bounds: algo.Bounds{Least: 1, Most: most}, congestion: today, size: 1024 * link.MiB}
	end, err := t.serve(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if isKnown {
		if err := t.meet(ctx); err != nil {
			return nil, err
		}
		defer t.contacts.Close()
	}
	return during(ctx, t.store.came, t.take)
}

// during returns how many megabytes have come at the marks, and ends the transfer after the last.
func during(ctx context.Context, came func() uint64, run func(ctx context.Context) error) (at []float64, failed error) {
	ctx, cancel := context.WithCancel(ctx)
	begun := time.Now()
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); ctx.Err() == nil {
			failed = errors.Join(err, errors.New("it has ended"))
			cancel()
		}
	})
	for _, mark := range marks {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(begun.Add(mark))):
		}
		at = append(at, float64(came())/1e6)
	}
	cancel()
	running.Wait()
	return at, failed
}

func start(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	r := &measure.Result{
		Title: "Paper 002, the first seconds", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`What has come in order some seconds after the first SYN, in the median of %d runs, each in a new network. All is %s. The plain connection has no TLS, whose handshake, and the
link's own, take two round trips more. An agent has a connection already to each peer that it measures: a link to a known peer begins with that.`, startRuns, today),
	}
	for _, b := range beginnings {
		table := measure.Table{Title: "Megabytes on " + b.String(), Columns: []string{""}}
		for _, mark := range marks {
			table.Columns = append(table.Columns, fmt.Sprintf("after %v", mark))
		}
		for _, s := range starters() {
			row := []string{s.name}
			runs := make([][]float64, len(marks))
			for run := range startRuns {
				at, err := s.on(ctx, b, options.Seed+uint64(run))
				if err != nil {
					return nil, fmt.Errorf("%s, %v: %w", s.name, b, err)
				}
				for i, megabytes := range at {
					runs[i] = append(runs[i], megabytes)
				}
			}
			for _, all := range runs {
				row = append(row, measure.Short(measure.Median(all)))
			}
			options.Progress("  %v: %v", b, row)
			table.Rows = append(table.Rows, row)
		}
		r.Tables = append(r.Tables, table)
	}
	return r, nil
}
