package sdk

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// places bounds how many deliveries are received at once: a late member may be assigned thousands that are kept.
type places struct {
	most  int64
	taken atomic.Int64
	free  chan struct{} // holds a token when a place was given back
}

// filesEach is how many open files each delivery is counted as: it has about ten, and its link's connections, of which there are mostly one
// and sometimes eight; and the process has some of its own.
const filesEach = 24

// newPlaces returns so many places; if most is 0, as many as this process may open files for.
func newPlaces(most int) *places {
	p := &places{most: int64(most), free: make(chan struct{}, 1)}
	if most == 0 {
		var limit unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // if that fails, one at a time
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
	default: // there is a token already
	}
}
