package paper001

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
)

// sampleInterval is the time over which a point in the figures over time is the mean.
const sampleInterval = 5 * time.Second

// outcome is one run of scenario 1 with one congestion control.
type outcome struct {
	congestion  string
	transfers   []traffic.Transfer
	utilization measure.Series // of the access link, percent
	queue       measure.Series // at the access link, mean KB
	long        []measure.Series
	received    []link.Bytes
	dropped     link.Tally
	late        link.Lateness
}

// plan is the length of a run and of its parts.
type plan struct {
	seed  uint64
	total time.Duration // zero means until the last short download has ended
	start time.Duration // of the short ones
	mean  time.Duration // between them
}

func run(ctx context.Context, congestion string, p plan) (*outcome, error) {
	n := scenario1(p.seed)
	defer n.Close()
	if err := n.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	long, err := n.startLong(ctx, congestion)
	if err != nil {
		return nil, err
	}
	defer long.wait()
	defer cancel()

	recorder := &measure.Recorder{Interval: sampleInterval}
	carried, queue := n.access.TrackCarried(recorder), n.access.TrackQueue(recorder)
	totals := long.track(recorder)
	stop := lab.Record(recorder)
	transfers, err := n.runShort(ctx, congestion, p)
	stop()
	if err != nil {
		return nil, err
	}
	o := &outcome{congestion: congestion, transfers: transfers, dropped: n.access.Read().Count.Overflowed, late: n.access.Lateness()}
	o.utilization = carried.Slope(8 * 100 / float64(accessRate))
	o.queue = queue.Slope(1 / float64(link.KiB))
	for _, total := range totals {
		o.long = append(o.long, total.Slope(8/float64(link.Kbit)))
		o.received = append(o.received, link.Bytes(total.Points[len(total.Points)-1].Y))
	}
	return o, nil
}

// long holds the three downloads that take all they can get.
type long struct {
	bulks   []*traffic.Bulk
	sources []*traffic.Source
	running sync.WaitGroup
}

func (n *network) startLong(ctx context.Context, congestion string) (*long, error) {
	l := &long{}
	for _, name := range []string{"A", "B", "C"} {
		source, err := traffic.Serve(n.senders[name], 80, congestion)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.sources = append(l.sources, source)
		l.bulks = append(l.bulks, &traffic.Bulk{Source: source, To: n.receiver})
	}
	for _, bulk := range l.bulks {
		l.running.Go(func() { _ = bulk.Run(ctx) })
	}
	return l, nil
}

func (l *long) track(recorder *measure.Recorder) []*measure.Series {
	var totals []*measure.Series
	for i, bulk := range l.bulks {
		totals = append(totals, recorder.Track("flow "+senders[i].name, func() float64 { return float64(bulk.Received.Load()) }))
	}
	return totals
}

func (l *long) wait() {
	l.running.Wait()
	_ = l.close()
}

func (l *long) close() error {
	var errs []error
	for _, source := range l.sources {
		errs = append(errs, source.Close())
	}
	return errors.Join(errs...)
}

// runShort waits until it is time, makes the short downloads, and returns when the run is over.
func (n *network) runShort(ctx context.Context, congestion string, p plan) ([]traffic.Transfer, error) {
	source, err := traffic.Serve(n.senders["D"], 80, congestion)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	over := time.After(p.total)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(p.start):
	}
	short := traffic.Short{Source: source, To: n.receiver, Count: shortCount, Size: shortSize, Interval: p.mean, Seed: p.seed}
	transfers, err := short.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("short downloads: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-over:
		return transfers, nil
	}
}
