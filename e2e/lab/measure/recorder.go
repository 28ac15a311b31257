package measure

import (
	"context"
	"time"
)

// Recorder reads totals at a steady interval.
type Recorder struct {
	Interval time.Duration
	probes   []probe
}

type probe struct {
	read   func() float64
	series *Series
}

// Track makes read be called at every interval; what it returns is added to the series, at the seconds since Run began.
func (r *Recorder) Track(name string, read func() float64) *Series {
	s := &Series{Name: name}
	r.probes = append(r.probes, probe{read: read, series: s})
	return s
}

// Run records until ctx ends; after that the series may be read.
func (r *Recorder) Run(ctx context.Context) {
	start := time.Now()
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	for {
		for _, p := range r.probes {
			p.series.Points = append(p.series.Points, Point{X: time.Since(start).Seconds(), Y: p.read()})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
