package object

import "sync"

// progress is what the goroutines of a landing know together.
type progress struct {
	mu sync.Mutex
	snapshot
}

// snapshot is a progress at one moment.
type snapshot struct {
	layout *layout
	landed uint64
	err    error // the first that went wrong; from then on nothing is claimed
}

func newProgress(l *layout, offset uint64) *progress {
	return &progress{snapshot: snapshot{layout: l, landed: offset}}
}

func (p *progress) now() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot
}

func (p *progress) advance(l *layout, landed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layout, p.landed = l, landed
}

func (p *progress) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}
