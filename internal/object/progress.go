package object

import "sync"

// progress is what the goroutines of a landing know together.
type progress struct {
	mu     sync.Mutex
	layout *layout
	tally  tally // of what has landed
	err    error // the first that went wrong; from then on nothing is claimed
}

// snapshot is a progress at one moment.
type snapshot struct {
	layout *layout
	landed uint64
	err    error
}

func (p *progress) now() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return snapshot{p.layout, p.tally.offset, p.err}
}

// advance adds what has landed, after which the layout is this one.
func (p *progress) advance(l *layout, landed []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layout = l
	p.tally.add(landed)
}

// claimable returns what can be claimed of what has landed so far, and in which layout.
func (p *progress) claimable() (claim, *layout, error) {
	p.mu.Lock()
	known, hashed, err := p.layout, p.tally, p.err
	p.mu.Unlock()
	return claim{hashed.offset, hashed.root()}, known, err
}

func (p *progress) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}
