package traffic_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
)

// BenchmarkLinks tells what this machine can carry: the share of the possible goodput that links of
// a rate reach at once, and the processor time that takes.
func BenchmarkLinks(b *testing.B) {
	for _, load := range []struct {
		links int
		rate  link.Rate
	}{{1, 200 * link.Mbit}, {1, 500 * link.Mbit}, {1, 1000 * link.Mbit}, {20, 10 * link.Mbit}, {40, 10 * link.Mbit}, {20, 25 * link.Mbit}} {
		b.Run(fmt.Sprintf("%dx%dMbit", load.links, load.rate/link.Mbit), func(b *testing.B) {
			for b.Loop() {
				carry(b, load.links, load.rate)
			}
		})
	}
}

func carry(b *testing.B, links int, rate link.Rate) {
	l := labtest.New(b, 1)
	defer l.Close()
	sender := l.Host("sender")
	shape := link.Shape{Rate: rate, Delay: 2 * time.Millisecond, Queue: link.Packets(500)}
	var ways []lab.Way
	bulks := make([]*traffic.Bulk, links)
	for i, receiver := range l.Hosts("receiver", links) {
		ways = append(ways, l.Link(sender, receiver, shape).From(sender))
		bulks[i] = &traffic.Bulk{To: receiver}
	}
	if err := l.Start(); err != nil {
		b.Fatal(err)
	}
	source, err := traffic.Serve(sender, 80, "cubic")
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, bulk := range bulks {
		bulk.Source = source
		running.Go(func() { _ = bulk.Run(ctx) })
	}
	report(ctx, b, bulks, ways, rate)
}

func report(ctx context.Context, b *testing.B, bulks []*traffic.Bulk, ways []lab.Way, rate link.Rate) {
	bulks[0].Goodput(ctx, 2*time.Second) // slow start
	before, start := processorTime(), time.Now()
	var wait sync.WaitGroup
	rates := make([]link.Rate, len(bulks))
	for i, bulk := range bulks {
		wait.Go(func() { rates[i], _ = bulk.Goodput(ctx, 4*time.Second) })
	}
	wait.Wait()
	busy := (processorTime() - before).Seconds() / time.Since(start).Seconds()
	var total link.Rate
	for _, r := range rates {
		total += r
	}
	var late time.Duration
	for _, way := range ways {
		late = max(late, way.Lateness().Within(0.99))
	}
	possible := float64(rate) * segmentSize / packetSize * float64(len(bulks))
	b.ReportMetric(100*float64(total)/possible, "%goodput")
	b.ReportMetric(busy, "cores")
	b.ReportMetric(float64(late.Microseconds()), "µs-late")
}

// processorTime is what this process has used, in and out of the kernel.
func processorTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
