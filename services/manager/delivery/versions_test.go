package delivery

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// A leader whose date was an hour ahead has delivered a version of a name. The next leader's is the later one all the same, at members and for
// those that come late, and began when it began.
func TestLaterVersionIsLaterWhateverTheDateWas(t *testing.T) {
	d := creating(t)
	ahead := stored("ahead")
	ahead.Delivery.Group, ahead.Delivery.Spec = "g", fileSpec()
	ahead.Delivery.CreateTime, ahead.Delivery.State = timestamppb.New(time.Now().Add(time.Hour)), groupv1.DeliveryState_DELIVERY_STATE_COMPLETE
	ahead.Delivery.Root, ahead.Delivery.SentBytes = []byte("another"), 1
	d.write(t, ahead)
	for range 2 {
		before, _ := d.view.Delivery("ahead")
		answer, err := d.Create(t.Context(), creator, &groupv1.CreateDeliveryRequest{Group: "g", Sender: "s", Spec: fileSpec()})
		if err != nil {
			t.Fatal(err)
		}
		if began := answer.GetDelivery().GetCreateTime().AsTime(); time.Until(began) > time.Minute {
			t.Errorf("it began at %v", began)
		}
		id := answer.GetDelivery().GetId()
		now, found := d.view.Delivery(id)
		k := d.keep(id)
		k.group = "g"
		if !found || k.superseded(now)() {
			t.Error("it is superseded by an earlier one")
		}
		if k.id = before.ID(); !k.superseded(before)() {
			t.Error("the earlier one is given to those who come late")
		}
		later := k.assignment(now, groupv1.Duty_DUTY_RECEIVE).GetCreateTime().AsTime()
		if earlier := k.assignment(before, groupv1.Duty_DUTY_RECEIVE).GetCreateTime().AsTime(); !later.After(earlier) {
			t.Errorf("members are told that it is of %v, and the earlier one of %v", later, earlier)
		}
		if _, err := d.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}
