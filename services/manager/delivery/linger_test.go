package delivery

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// Agents are told of a delivery for as long as it is kept, and so is a member that may still have it. Those that have nothing left to do
// are told for a minute that it has ended: thousands of deliveries may be kept, for days.
func TestWhoIsDoneIsSoonToldNothing(t *testing.T) {
	delivery, end := crowd(2), time.Now()
	has, lacks := delivery.GetMembers()[0].GetName(), delivery.GetMembers()[1].GetName()
	delivery.Delivery.State, delivery.Delivery.EndTime = groupv1.DeliveryState_DELIVERY_STATE_PARTIAL, timestamppb.New(end)
	delivery.Delivery.Spec, delivery.Delivery.Sealed = &groupv1.DeliverySpec{Keep: durationpb.New(time.Hour)}, true
	complete(&delivery, 1)
	k := newKeeper(leading(t), delivery)
	built, err := tree.Restore(decodeTree([]*managerv1.TreeNode{
		{Id: "member/s"}, {Id: "agent/a", Parent: "member/s"}, {Id: "member/" + has, Parent: "agent/a"}, {Id: "member/" + lacks, Parent: "agent/a"},
	}), tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	k.tree = built
	for _, who := range []struct {
		id    identity.ID
		duty  groupv1.Duty
		until time.Duration
	}{
		{identity.ID{Role: identity.Member, Name: "s"}, groupv1.Duty_DUTY_SEND, lingerMember},
		{identity.ID{Role: identity.Agent, Name: "a"}, groupv1.Duty_DUTY_RELAY, time.Hour},
		{identity.ID{Role: identity.Member, Name: has}, groupv1.Duty_DUTY_RECEIVE, lingerMember},
		{identity.ID{Role: identity.Member, Name: lacks}, groupv1.Duty_DUTY_RECEIVE, time.Hour},
	} {
		for _, after := range []time.Duration{0, lingerMember / 2, 2 * lingerMember, time.Hour / 2, 2 * time.Hour} {
			told := k.finish(delivery, who.id, &groupv1.Assignment{Duty: who.duty}, end.Add(after))
			if told != (after < who.until) {
				t.Errorf("%v after the end, %v is told of it: %t", after, who.id, told)
			}
		}
	}
}
