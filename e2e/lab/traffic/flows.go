package traffic

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Bulk is a long download that takes all it can get.
type Bulk struct {
	Source   *Source
	To       *lab.Host
	Received atomic.Int64 // bytes so far
}

// Run downloads until ctx ends.
func (b *Bulk) Run(ctx context.Context) error {
	_, err := b.Source.Fetch(ctx, b.To, 0, &b.Received)
	return err
}

// Goodput measures the speed of the download from now on. It returns false if
// ctx ends first.
func (b *Bulk) Goodput(ctx context.Context, during time.Duration) (link.Rate, bool) {
	start, before := time.Now(), b.Received.Load()
	select {
	case <-ctx.Done():
		return 0, false
	case <-time.After(during):
	}
	bits := float64(b.Received.Load()-before) * 8
	return link.Rate(bits / time.Since(start).Seconds()), true
}

// Short is a number of short downloads at random intervals.
type Short struct {
	Source   *Source
	To       *lab.Host
	Count    int
	Size     link.Bytes
	Interval time.Duration // mean; intervals are exponential
	Seed     uint64
	Done     atomic.Int64 // downloads that have ended
}

// Run starts every download at its time, whether or not earlier ones have ended, and returns all in
// the order in which they started.
func (s *Short) Run(ctx context.Context) ([]Transfer, error) {
	random := rand.New(rand.NewPCG(s.Seed, 0))
	transfers := make([]Transfer, s.Count)
	errs := make([]error, s.Count)
	var group sync.WaitGroup
	next := time.Now()
	for i := range transfers {
		next = next.Add(time.Duration(random.ExpFloat64() * float64(s.Interval)))
		if !waitUntil(ctx, next) {
			group.Wait()
			return slices.Clip(transfers[:i]), errors.Join(append(errs, ctx.Err())...)
		}
		start := time.Now()
		group.Go(func() {
			var received atomic.Int64
			transfers[i], errs[i] = s.Source.fetchFrom(ctx, start, s.To, s.Size, &received)
			s.Done.Add(1)
		})
	}
	group.Wait()
	return transfers, errors.Join(errs...)
}

func waitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
