package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Stalls watches for how long members get nothing of an object.
type Stalls struct {
	stop    chan struct{}
	watches sync.WaitGroup
	mu      sync.Mutex
	longest map[string]time.Duration
}

// WatchStalls watches members from their first byte of an object to their last.
func (n *Net) WatchStalls(p *Push) *Stalls {
	s := &Stalls{stop: make(chan struct{}), longest: make(map[string]time.Duration)}
	for _, m := range n.Members {
		s.watches.Go(func() {
			grown := growth{}
			for !grown.isWhole(p.Object.Size) {
				select {
				case <-s.stop:
					return
				case <-time.After(10 * time.Millisecond):
				}
				grown.note(n.Received(m, p.Object), time.Now())
				s.mu.Lock()
				s.longest[m.name] = grown.longest
				s.mu.Unlock()
			}
		})
	}
	return s
}

// growth notes how something grows.
type growth struct {
	bytes   int64
	at      time.Time
	longest time.Duration
}

func (g *growth) isWhole(size int64) bool { return g.bytes == size }

func (g *growth) note(bytes int64, now time.Time) {
	if g.bytes > 0 {
		g.longest = max(g.longest, now.Sub(g.at))
	}
	if bytes > g.bytes || g.bytes == 0 {
		g.bytes, g.at = bytes, now
	}
}

// End ends the watch.
func (s *Stalls) End() {
	close(s.stop)
	s.watches.Wait()
}

// Of returns the longest stall of a member so far.
func (s *Stalls) Of(member string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longest[member]
}

// Distribution holds the observed values of a duration.
type Distribution []time.Duration

// Quantile returns the duration that a share of the values does not exceed.
func (d Distribution) Quantile(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// String lists the most telling quantiles.
func (d Distribution) String() string {
	var parts []string
	for _, share := range []float64{0, 0.5, 0.9, 0.99} {
		parts = append(parts, fmt.Sprintf("p%.0f %v", 100*share, d.Quantile(share).Round(time.Millisecond)))
	}
	return fmt.Sprintf("n %d, %s", len(d), strings.Join(parts, ", "))
}
