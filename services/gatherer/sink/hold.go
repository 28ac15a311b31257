package sink

import "sync"

// held are the paths of files that are about to appear, or are still needed. Retain removes nothing there: it could by then be another
// file, which a client was told is durable, or one that a command is to be run for.
var held = paths{known: make(map[string]int)}

type paths struct {
	mu    sync.Mutex
	known map[string]int // how many holders each path has
}

// Hold keeps whatever is at a path there until letGo is called, once.
func Hold(path string) (letGo func()) {
	held.add(path, 1)
	return sync.OnceFunc(func() { held.add(path, -1) })
}

func (p *paths) add(path string, change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[path] += change; p.known[path] == 0 {
		delete(p.known, path)
	}
}

func (p *paths) has(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[path] > 0
}

// unless does something short if nobody holds a path, which nobody can meanwhile, and reports whether it has.
func (p *paths) unless(path string, do func() error) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[path] > 0 {
		return false, nil
	}
	return true, do()
}

// holding are the paths that a sink holds.
type holding struct {
	mu  sync.Mutex
	all []func()
}

func (h *holding) hold(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, Hold(path))
}

func (h *holding) letGo() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, letGo := range h.all {
		letGo()
	}
	h.all = nil
}
