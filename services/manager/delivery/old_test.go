package delivery

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// New deliveries begin while old ones are forgotten, however many those are and however long the store takes for that.
func TestForgettingHoldsUpNoNewDelivery(t *testing.T) {
	d := leading(t)
	old := stored("old")
	old.Delivery.State, old.Delivery.EndTime = groupv1.DeliveryState_DELIVERY_STATE_COMPLETE, timestamppb.New(time.Now().Add(-2*forgetAfter))
	d.write(t, old)
	fresh := stored("new")
	fresh.Delivery.State = groupv1.DeliveryState_DELIVERY_STATE_RUNNING
	writer := &Desk{ledger: d.ledger, store: d.store, view: d.view}
	d.store = new(store.Store) // it answers nothing
	d.agents["gone"] = &presence{closed: time.Now().Add(-goneMemory)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	forgetting := func() bool { // agents are forgotten right before deliveries
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.agents) == 0
	}
	for deadline := time.Now().Add(time.Minute); !forgetting(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is forgotten")
		}
	}
	writer.write(t, fresh)
	opening, giveUp := context.WithTimeout(ctx, 20*time.Second)
	defer giveUp()
	if d.open(opening, "new"); opening.Err() != nil {
		t.Error("a delivery that was just created waits until old ones are forgotten")
	}
}
