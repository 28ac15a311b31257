package sdk

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// places are how many deliveries may be received at once: who comes late may be told of
// thousands that are kept.
type places struct {
	most  int64
	taken atomic.Int64
	free  chan struct{} // holds a token when a place was given back
}

// filesEach is how many files there are for each: it has about ten open, and as many connections as its link has, of which most
// have one and some eight; the process has its own.
const filesEach = 24

// newPlaces returns a number of places; of 0, as many as there may be files open for.
func newPlaces(most int) *places {
	p := &places{most: int64(most), free: make(chan struct{}, 1)}
	if most == 0 {
		var limit unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // if it cannot be asked for, one at a time
		p.most = int64(max(min(limit.Cur, math.MaxInt64)/filesEach, 1))
	}
	return p
}

// take takes a place if there is one. It is called by one goroutine.
func (p *places) take() bool {
	if p.taken.Load() == p.most {
		return false
	}
	p.taken.Add(1)
	return true
}

func (p *places) giveBack() {
	p.taken.Add(-1)
	select {
	case p.free <- struct{}{}:
	default: // that is known
	}
}
