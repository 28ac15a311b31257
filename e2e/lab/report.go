package lab

import (
	"context"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// Report adds every emulated link and every ended program to r.
func (l *Lab) Report(r *measure.Result) {
	for _, wire := range l.links {
		for _, way := range wire.Ways() {
			if wire.ways[way.side] != nil {
				r.Links = append(r.Links, way.summary())
			}
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
	return measure.Way{
		Name: d.Name(), Count: reading.Count,
		MeanQueue: reading.Level.PacketSeconds / reading.At.Seconds(),
		Late99:    microseconds(late.Within(0.99)), LateWorst: microseconds(late.Worst()),
	}
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
