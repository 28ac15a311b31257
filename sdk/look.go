package sdk

import (
	"context"
	"errors"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

// lookTime is how long a look at the source may take before the agent is dialled again.
const lookTime = 200 * time.Millisecond

// look returns object.ErrChanged if the source has changed. A large directory takes long to look at, for which members do not wait: then the
// look goes on, and ends the delivery if need be.
func (o *Outgoing) look(ctx context.Context, from supplier) error {
	if !o.looking.CompareAndSwap(false, true) {
		return nil
	}
	found, late := make(chan error), make(chan struct{})
	go func() {
		err := from.usable()
		o.looking.Store(false)
		select {
		case found <- err:
		case <-late:
			if errors.Is(err, object.ErrChanged) {
				o.fail(ctx, "source_changed", err)
			}
		}
	}()
	timer := time.NewTimer(lookTime)
	defer timer.Stop()
	select {
	case err := <-found:
		return err
	case <-timer.C:
		close(late)
		return nil
	}
}
