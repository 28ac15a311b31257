package sink

import "sync"

// held are the paths of files that are about to appear, or are still needed as they are. What need not stay is not removed there: it
// could be another by then, which its client was told is durable, or one that a command is to be run for.
var held = paths{known: make(map[string]int)}

type paths struct {
	mu    sync.Mutex
	known map[string]int // how many need what is there
}

// Hold has what is at a path stay until it is let go, once.
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

// unless does something that takes no time while nobody needs what is at a path, and reports whether it has.
func (p *paths) unless(path string, do func() error) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[path] > 0 {
		return false, nil
	}
	return true, do()
}

// holding are the paths that one holds.
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
