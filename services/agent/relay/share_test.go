package relay_test

import (
	"testing"

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
