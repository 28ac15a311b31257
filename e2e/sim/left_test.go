package sim

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// A member that leaves has failed, so that nobody waits for it. When it is back, as a service that was started anew, it goes on from
// what it has: while the delivery runs, and after that from what agents keep.
func TestWhoLeftAndIsBackGoesOn(t *testing.T) {
	for name, away := range map[string]time.Duration{"while the delivery runs": 2 * time.Second, "after the delivery": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := overTwoAgents()
			inWorld(t, s, func(*world) {}, func(w *world) { w.leaveAndComeBack(away) })
		})
	}
}

func (w *world) leaveAndComeBack(away time.Duration) {
	w.Helper()
	p, leaver := w.deliveries[0], w.receivers[1].name
	path := w.write(p)
	out, err := w.sending.Send(context.Background(), path, sdk.SendOptions{MaxBytesPerSecond: uint64(p.size) / 10})
	w.must(err)
	time.Sleep(3 * time.Second)
	w.leaves.Store(true)
	w.programs[leaver].stop()
	w.isOver(w.programs[leaver])
	w.leaves.Store(false)
	w.await("it has failed", func() bool {
		shown, err := w.operator.Delivery(context.Background(), out.ID())
		return err == nil && shown.Failed == 1
	})
	time.Sleep(away)
	w.restarted(leaver)
	w.await("all have it", func() bool {
		shown, err := w.operator.Delivery(context.Background(), out.ID())
		return err == nil && shown.State == sdk.DeliveryComplete
	})
	for _, r := range w.receivers {
		if err := same(path, filepath.Join(w.into(r.name), p.name)); err != nil {
			w.Errorf("%s: %v", r.name, err)
		}
	}
}
