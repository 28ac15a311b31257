package delivery

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// hearsAll is how a manager is that is not cut off.
type hearsAll struct{}

func (hearsAll) IsCutOff() bool        { return false }
func (hearsAll) LastCutOff() time.Time { return time.Time{} }

// LastHeard is now.
func (hearsAll) LastHeard(string, string) time.Time { return time.Now() }

// cutOff is how a manager is that was cut off until a time, and may still be.
type cutOff time.Time

func (cutOff) IsCutOff() bool          { return true }
func (c cutOff) LastCutOff() time.Time { return time.Time(c) }

// LastHeard is when it was cut off.
func (c cutOff) LastHeard(string, string) time.Time { return time.Time(c) }

// newDesk returns the desk of a term in which nothing is stored.
func newDesk() *Desk {
	log := slog.New(slog.DiscardHandler)
	shown := view.New(nil, log)
	return Lead(ledger.Open(new(store.Term), nil, shown), nil, shown, nil, nil, hearsAll{}, nil, log)
}

// stored is a delivery that s sends to group g.
func stored(id string) view.Delivery {
	return view.Delivery{DeliveryRecord: &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Id: id, Group: "g", Sender: "s"}}}
}

// keep gives the desk a keeper of a delivery.
func (d *Desk) keep(id string) *keeper {
	k := newKeeper(d, stored(id))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keepers[id] = k
	return k
}

// Nothing is left in memory of what a leader knew of a delivery that is kept no more, however long it leads.
func TestKeepersAreForgotten(t *testing.T) {
	d, forgotten := newDesk(), make(chan struct{})
	func() { // so that nothing here holds it
		runtime.AddCleanup(d.keep("d"), func(forgotten chan struct{}) { close(forgotten) }, forgotten)
	}()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	for range 100 {
		runtime.GC()
		select {
		case <-forgotten:
			return
		case <-time.After(50 * time.Millisecond): // it may have been kept still when that was collected
		}
	}
	t.Error("a keeper that has ended is held")
}
