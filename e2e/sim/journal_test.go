package sim

import (
	"bytes"
	"sync"
)

// journal keeps the latest of what the programs say and what the network does.
type journal struct {
	ring
	network ring
}

func newJournal() *journal {
	return &journal{ring: ring{most: 1 << 20}, network: ring{most: 64 << 10}}
}

// ring keeps the last lines.
type ring struct {
	most int

	mu    sync.Mutex
	lines bytes.Buffer
}

func (r *ring) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines.Len() > 2*r.most {
		r.lines.Next(r.most)
	}
	return r.lines.Write(line)
}

func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}
