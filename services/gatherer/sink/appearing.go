package sink

import "sync"

// appearing are the paths at which files are about to appear. What need not stay there is not removed meanwhile: it could be
// another by then, which its client was told is durable.
var appearing = paths{known: make(map[string]int)}

type paths struct {
	mu    sync.Mutex
	known map[string]int // how many appear there
}

// appear lets a file appear.
func (p *paths) appear(path string, complete func() error) error {
	p.add(path, 1)
	defer p.add(path, -1)
	return complete()
}

func (p *paths) add(path string, change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[path] += change; p.known[path] == 0 {
		delete(p.known, path)
	}
}

// unless does something that takes no time while nothing appears at a path, and reports whether it has.
func (p *paths) unless(path string, do func() error) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[path] > 0 {
		return false, nil
	}
	return true, do()
}
