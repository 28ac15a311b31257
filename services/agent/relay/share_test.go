package relay_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Where there are more deliveries than segments of the cache, the share of each is less than a segment: it is given back
// when all have it.
func TestShareOfLessThanASegment(t *testing.T) {
	const room, others = 1 << 20, 19
	kinds := []groupv1.DeliveryKind{groupv1.DeliveryKind_DELIVERY_KIND_FILE, groupv1.DeliveryKind_DELIVERY_KIND_STREAM}
	for _, mode := range []string{"CONTROL_MODE_HOP-DATA_PLANE_TLS", "CONTROL_MODE_END_TO_END-DATA_PLANE_PLAINTEXT"} {
		for _, kind := range kinds {
			t.Run(mode+"-"+kind.String(), func(t *testing.T) {
				w := newWorld(t, 1<<20+5, modes()[mode])
				w.spec.Kind = kind
				w.stripes = parallel.Bounds{Least: 4, Most: 4}
				for _, a := range []*agent{w.start("sa1", room), w.start("sa2", room)} {
					for range others {
						entry := a.Cache.Create()
						t.Cleanup(func() { entry.Close() })
					}
				}
				w.tree("sa1", "sender", "sa2", "r1")
				w.tree("sa2", "sa1", "r2", "r3")
				w.deliver("sa1", map[*member]string{newMember("r1"): "sa1", newMember("r2"): "sa2", newMember("r3"): "sa2"})
			})
		}
	}
}

// A delivery over a slow link has filled the cache, and can give back nothing: one that comes then gets on all the same.
func TestSlowDeliveryLeavesRoomToOthers(t *testing.T) {
	spec := modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"]
	spec.SlowMember = &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE}
	w := newWorld(t, 4<<20, spec)
	a := w.start("sa1", 2<<20)
	w.tree("sa1", "sender", "slow")
	slow := newMember("slow")
	slow.pace = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = w.send(ctx, "sa1") })
	running.Go(func() { _ = w.pull(ctx, slow, func() string { return "sa1" }) })
	w.await("the slow one has all room", func() bool { return a.Held() == 7<<18 })
	w.id[0]++
	w.tree("sa1", "sender", "r1")
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"})
	if slow.has() > 1<<20 {
		t.Errorf("the slow one has %d bytes meanwhile", slow.has())
	}
}
