package lab

import (
	"context"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// Report adds both directions of every link and every ended program to r. Call it
// before Close.
func (l *Lab) Report(r *measure.Result) {
	for _, wire := range l.links {
		for _, way := range wire.Ways() {
			r.Links = append(r.Links, way.summary())
		}
	}
	l.guard.Lock()
	defer l.guard.Unlock()
	for _, p := range l.processes {
		used := p.Usage()
		r.Programs = append(r.Programs, measure.Usage{
			Name: p.Name, Host: p.host.name, Processor: used.Processor.Seconds(), PeakMemory: used.PeakMemory,
		})
	}
}

func (d Way) summary() measure.Way {
	reading, late := d.Read(), d.Lateness()
	summary := measure.Way{
		Name: d.Name(), Count: reading.Count,
		Late99: microseconds(late.Within(0.99)), LateWorst: microseconds(late.Worst()),
	}
	if reading.At > 0 { // a plain link has no queue to tell of
		summary.MeanQueue = reading.Level.PacketSeconds / reading.At.Seconds()
	}
	return summary
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// TrackQueue records the queue of d, summed over time; the slope is the exact
// mean number of bytes.
func (d Way) TrackQueue(recorder *measure.Recorder) *measure.Series {
	return recorder.Track(d.Name()+" queue", func() float64 { return d.Read().Level.ByteSeconds })
}

// TrackCarried records the bytes that d has put on the wire; the slope is its
// speed.
func (d Way) TrackCarried(recorder *measure.Recorder) *measure.Series {
	return recorder.Track(d.Name(), func() float64 { return float64(d.Read().Count.Carried.Bytes) })
}

// TrackDropped records the packets that d has dropped at the tail of its queue, and
// those that it was offered.
func (d Way) TrackDropped(recorder *measure.Recorder) (dropped, offered *measure.Series) {
	dropped = recorder.Track(d.Name()+" dropped", func() float64 { return float64(d.Read().Count.Overflowed.Packets) })
	offered = recorder.Track(d.Name()+" offered", func() float64 { return float64(d.Read().Count.Offered.Packets) })
	return dropped, offered
}

// Record runs a recorder until the returned stop is called.
func Record(recorder *measure.Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { recorder.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
