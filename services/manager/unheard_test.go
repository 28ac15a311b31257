package manager_test

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A member that died with the leader says nothing to the next one. It has what it had acknowledged to its agent. If no agent says so, or the
// agent may speak of another agent of that name, nobody knows what it has, and that is not 0. So it stays when the delivery ends.
func TestWhoDiesWithTheLeaderHasNotNothing(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 3)
	leader := cluster.Leader(t)
	p := newPair(t, newParty(t, cluster.Config(), nil))
	namesake := p.join(t, "a1", "node-1", receiveToo)
	id := p.create(t, p.sender, file(megabyte))
	p.m1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 300})
	p.m2.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 500})
	p.a1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 900, Children: []*groupv1.ChildReport{{Name: "m1", SentBytes: 350}}})
	p.a2.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 800, Children: []*groupv1.ChildReport{{Name: "m2", SentBytes: 700, AckedOffset: 400}, {Name: "a1", AckedOffset: 700}}})
	before := p.becomes(t, id, "under way", 10*time.Second, func(d *groupv1.Delivery) bool {
		return receipt(d, "m1").GetBytes() == 300 && receipt(d, "m2").GetBytes() == 500
	})
	if r := receipt(before, "a1"); r.GetBytesUnknown() || r.GetBytes() != 0 {
		t.Errorf("who has said nothing since it began is %v, want nothing", r)
	}
	for _, dead := range []*node{p.m1, p.m2, namesake} {
		dead.stop()
		<-dead.ended
	}
	leader.Kill()
	check := func(d *groupv1.Delivery) {
		t.Helper()
		for name, want := range map[string]uint64{"m1": 0, "m2": 400, "a1": 0} {
			if r := receipt(d, name); r.GetBytes() != want || r.GetBytesUnknown() != (want == 0) {
				t.Errorf("%s, want %d bytes", r, want)
			}
		}
	}
	is := func(name string, state groupv1.ReceiptState) func(*groupv1.Delivery) bool {
		return func(d *groupv1.Delivery) bool { return receipt(d, name).GetState() == state }
	}
	p.becomes(t, id, "heard of by its agents", 30*time.Second, func(d *groupv1.Delivery) bool { return receipt(d, "m2").GetBytes() > 0 })
	unknown := groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN
	check(p.becomes(t, id, "without them", 30*time.Second, func(d *groupv1.Delivery) bool {
		return is("m1", unknown)(d) && is("m2", unknown)(d) && is("a1", unknown)(d)
	}))
	if _, err := p.deliveries.CancelDelivery(t.Context(), &groupv1.CancelDeliveryRequest{Delivery: id}); err != nil {
		t.Fatal(err)
	}
	check(p.get(t, id))
}
