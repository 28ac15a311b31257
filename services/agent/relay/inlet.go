package relay

import (
	"context"
	"sync"
)

// inlet is the place of the one link from a parent.
type inlet struct {
	life  context.Context
	taken chan struct{}

	mu  sync.Mutex
	cut context.CancelFunc // ends the link; nil without one
}

func newInlet(life context.Context) *inlet {
	return &inlet{life: life, taken: make(chan struct{}, 1)}
}

// take waits to be the one link. The context ends when the link has to.
func (i *inlet) take(waiting context.Context) (ctx context.Context, release func(), err error) {
	select {
	case i.taken <- struct{}{}:
	case <-waiting.Done():
		return nil, nil, waiting.Err()
	}
	ctx, cancel := context.WithCancel(i.life)
	i.set(cancel)
	return ctx, func() {
		i.set(nil)
		cancel()
		<-i.taken
	}, nil
}

func (i *inlet) set(cut context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cut = cut
}

// end ends the link that there is.
func (i *inlet) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cut != nil {
		i.cut()
	}
}

// links is 1 while there is a link.
func (i *inlet) links() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cut == nil {
		return 0
	}
	return 1
}
