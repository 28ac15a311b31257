package relay

import (
	"context"
	"sync"

	"github.com/groupcast/groupcast/internal/link"
)

// inlet is the place of the one link from a parent.
type inlet struct {
	life context.Context

	mu   sync.Mutex
	cut  context.CancelCauseFunc // ends the link that has the place; nil while none has
	free chan struct{}           // closed when none has it any more
}

func newInlet(life context.Context) *inlet {
	return &inlet{life: life, free: make(chan struct{})}
}

// take waits to be the one link. The context ends when the link has to.
func (i *inlet) take(waiting context.Context) (ctx context.Context, release func(), err error) {
	return i.await(waiting, func() {})
}

// seize takes the place away from the link that has it, and from others that get it before the caller does. The next link asks from
// elsewhere, of which the parent is told.
func (i *inlet) seize(waiting context.Context) (release func(), err error) {
	_, release, err = i.await(waiting, func() { i.endFor(link.ErrElsewhere) })
	return release, err
}

// await takes the place when it is free. It calls taken whenever it finds that another link has it.
func (i *inlet) await(waiting context.Context, taken func()) (ctx context.Context, release func(), err error) {
	for {
		ctx, free := i.tryTake()
		if ctx != nil {
			return ctx, i.release, nil
		}
		taken()
		select {
		case <-free:
		case <-waiting.Done():
			return nil, nil, waiting.Err()
		}
	}
}

// tryTake takes the place if no link has it. Otherwise ctx is nil, and free is closed when it is worth trying again.
func (i *inlet) tryTake() (ctx context.Context, free <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cut != nil {
		return nil, i.free
	}
	ctx, i.cut = context.WithCancelCause(i.life)
	return ctx, nil
}

func (i *inlet) release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cut(nil)
	i.cut = nil
	close(i.free)
	i.free = make(chan struct{})
}

// end ends the link that there is.
func (i *inlet) end() { i.endFor(nil) }

func (i *inlet) endFor(why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cut != nil {
		i.cut(why)
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
