package manager_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// A delivery to many members at once: assigned, reported, received.
func TestDeliveryToMany(t *testing.T) {
	const many = 300
	_, p := startParty(t)
	var agents, members []*node
	for i := range 10 {
		agents = append(agents, p.agent(t, fmt.Sprintf("a%d", i), fmt.Sprintf("node-%d", i), "zone"))
	}
	sender := p.join(t, "s", "node-0", send)
	for i := range many {
		members = append(members, p.join(t, fmt.Sprintf("m%03d", i), fmt.Sprintf("node-%d", i%10), receiveToo))
	}
	start := time.Now()
	id := p.create(t, sender, file(megabyte))
	for _, n := range members {
		n.has(t, id, "fed", func(a *groupv1.Assignment) bool { return a.GetParent() != nil })
	}
	t.Logf("all are assigned after %v", time.Since(start))
	sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte})
	p.seal(t, sender, id, megabyte)
	for _, n := range agents {
		n.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte})
	}
	start = time.Now()
	var receipts sync.WaitGroup
	for _, n := range members {
		receipts.Go(func() {
			if err := p.complete(t, n, id, megabyte); err != nil {
				t.Errorf("receipt of %s: %v", n.name, err)
			}
		})
	}
	receipts.Wait()
	t.Logf("all receipts are written after %v", time.Since(start))
	d := p.becomes(t, id, "complete", 10*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
	if len(d.GetReceipts()) != many || d.GetCompleteCount() != many {
		t.Errorf("%d receipts, %d complete", len(d.GetReceipts()), d.GetCompleteCount())
	}
	t.Logf("the delivery is complete after %v", time.Since(start))
}
