package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// BenchmarkTakeOver is what a new leader does for 16 deliveries to 1000 members each before it serves anybody.
func BenchmarkTakeOver(b *testing.B) {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	manager, err := identity.NewSelfIssued(ca, identity.ID{Role: identity.Manager, Name: "m1"})
	if err != nil {
		b.Fatal(err)
	}
	delivery := crowd(1000)
	delivery.Delivery.Spec = &groupv1.DeliverySpec{}
	record := &managerv1.TreeRecord{Version: 1, Nodes: []*managerv1.TreeNode{{Id: "member/s"}, {Id: "agent/a", Parent: "member/s"}}}
	for _, participant := range delivery.GetMembers() {
		record.Nodes = append(record.Nodes, &managerv1.TreeNode{Id: placement.MemberID(participant.GetName()).String(), Parent: "agent/a"})
	}
	delivery.Tree, delivery.TreeChanged = view.NewTree(record, 1, 0), 1
	for b.Loop() {
		d := newDesk()
		d.signer, d.metrics = manager, NewMetrics(prometheus.NewRegistry())
		for i := range 16 {
			delivery.Delivery.Id = fmt.Sprint(i)
			d.adopt(delivery)
		}
	}
}
