package view

import (
	"context"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/services/manager/store"
)

const (
	// freshPause is how often it is made sure that the view shows what other managers have written.
	freshPause = 3 * time.Second
	// freshWithin is for how long a watch goes on where that cannot be made sure of, as when this manager is cut off from the store. An idle
	// store says nothing by itself.
	freshWithin = 10 * time.Second
)

// SyncSoon is Sync for those who would wait for ever: a store that does not answer within freshWithin is unavailable.
func (v *View) SyncSoon(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	err := v.Sync(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w within %v", store.ErrUnavailable, freshWithin)
	}
	return err
}

// keepFresh syncs again and again until ctx is done, so that it is known how fresh the view is.
func (v *View) keepFresh(ctx context.Context) {
	for pause.For(ctx, freshPause) {
		if err := v.SyncSoon(ctx); err != nil {
			v.log.Debug("the view may be behind the store", "error", err)
		}
	}
}

// noteFresh notes that the view shows everything that was acknowledged before a time.
func (v *View) noteFresh(at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at.After(v.fresh) {
		v.fresh = at
	}
}

// checkFresh returns why it is not known whether the view shows what has changed lately.
func (v *View) checkFresh() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if time.Since(v.fresh) > freshWithin {
		return store.ErrUnavailable
	}
	return nil
}
