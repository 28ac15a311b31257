package object

import (
	"context"
	"sync"
)

// progress is what the goroutines of a landing know together.
type progress struct {
	mu      sync.Mutex
	layout  *layout
	landed  uint64
	hashed  uint64
	err     error         // the first that went wrong; from then on nothing is claimed
	changed chan struct{} // closed, and replaced, when something changes
}

// snapshot is a progress at one moment.
type snapshot struct {
	layout         *layout
	landed, hashed uint64
	err            error
}

func newProgress(l *layout, offset uint64) *progress {
	return &progress{layout: l, landed: offset, hashed: offset, changed: make(chan struct{})}
}

func (p *progress) now() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return snapshot{p.layout, p.landed, p.hashed, p.err}
}

func (p *progress) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *progress) fail(err error) {
	p.update(func() {
		if p.err == nil {
			p.err = err
		}
	})
}

// wait returns when something went wrong, or what is waited for has come.
func (p *progress) wait(ctx context.Context, come func(snapshot) bool) (snapshot, error) {
	for {
		p.mu.Lock()
		now, changed := snapshot{p.layout, p.landed, p.hashed, p.err}, p.changed
		p.mu.Unlock()
		if now.err != nil || come(now) {
			return now, now.err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}
