package paper002

import (
	"context"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/internal/algo/parallel"
)

// Parallel is tables 1 and 2 and figure 2, and everything between them.
var Parallel = experiment.Experiment{
	Paper: "002",
	Name:  "parallel",
	About: "tables 1 and 2, figure 2: socket buffers and parallel connections on a path with loss and delay; beside them a link that tunes itself",
	Run:   sockets,
}

// The paper's values (§3.2). The five buffer levels are those of table 1.
const (
	transferred    = 23_300_000 * link.Bytes(1)
	smallest       = 8192 * link.Bytes(1)
	best           = 32768 * link.Bytes(1)
	tableMost      = 9
	figureMost     = 20
	cellTime       = 5 * time.Second
	headline       = 7.0 // "this TCP tuning configuration can transfer data about 7 times faster"
	paperUntuned   = 2.2 // Mbit/s
	paperTuned     = 15.5
	tunedBuffer    = best
	tunedSockets   = 3
	paperBestFewer = 8 // "the best transfer times are achieved […] at between 8 and 13"
	paperBestMost  = 13
)

var levels = []link.Bytes{smallest, best, 65536, 524288, 1048576}

// The paper's rates in Mbit/s.
var (
	paperTable1 = map[link.Bytes]float64{smallest: 2.2, best: 6.1, 65536: 7.0, 524288: 6.5, 1048576: 4.0}
	paperTable2 = []float64{2.4, 4.1, 5.8, 7.1, 8.3, 9.8, 10.8, 11.8, 12.9}
)

// grid is what each cell carried.
type grid map[cell]link.Rate

// cells returns all cells that the tables and the figure show, and the others that the paper
// mentions: five levels with 1 to 9 connections each.
func cells() []cell {
	var list []cell
	for _, level := range levels {
		most := tableMost
		if level == best {
			most = figureMost
		}
		for n := 1; n <= most; n++ {
			list = append(list, cell{level, n})
		}
	}
	return list
}

func sockets(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	if options.Duration == 0 {
		options.Duration = cellTime
	}
	n := internet(options.Seed)
	defer n.Close()
	if err := n.Start(); err != nil {
		return nil, err
	}
	measured := grid{}
	for _, c := range cells() {
		rate, err := n.measure(ctx, c, options.Duration)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", c, err)
		}
		options.Progress("  %v: %v", c, rate)
		measured[c] = rate
	}
	found := outcome{grid: measured}
	for _, control := range []string{today, congestion} {
		made, err := n.link(ctx, control, options)
		if err != nil {
			return nil, fmt.Errorf("a link with %s: %w", control, err)
		}
		found.links = append(found.links, made)
	}
	return report(options, found, n.path.Lateness()), nil
}

// outcome is everything that was measured.
type outcome struct {
	grid
	links []series // with the congestion control of today, and of then
}

// series are links of the product with one congestion control.
type series struct {
	congestion string
	one        tuned   // it may have only one stripe
	tuned      []tuned // they tune themselves
}

// tunings is how many links tune themselves, one after another, each from the beginning.
const tunings = 5

func (n *network) link(ctx context.Context, congestion string, options experiment.Options) (made series, err error) {
	made.congestion = congestion
	if made.one, err = n.tune(ctx, congestion, parallel.Bounds{Least: 1, Most: 1}); err != nil {
		return made, err
	}
	for range max(options.Runs, tunings) {
		one, err := n.tune(ctx, congestion, parallel.Bounds{Least: 1, Most: parallel.Most})
		if err != nil {
			return made, err
		}
		options.Progress("  a link that tunes itself, %s: %v", congestion, one.rate)
		made.tuned = append(made.tuned, one)
	}
	return made, nil
}
