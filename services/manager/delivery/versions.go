package delivery

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Of two objects with one name the later one stays, at members and for those that come late. Which is the later one does not depend on the
// date: the next leader's may be an hour behind.

// versions returns the deliveries of files to a group that have one name, the newest first.
func (d *Desk) versions(group, name string) []view.Delivery {
	found := d.view.Deliveries(func(delivery view.Delivery) bool {
		spec := delivery.GetDelivery().GetSpec()
		return delivery.GetDelivery().GetGroup() == group && spec.GetName() == name && spec.GetKind() != groupv1.DeliveryKind_DELIVERY_KIND_STREAM
	})
	slices.SortStableFunc(found, func(a, b view.Delivery) int { return orderTime(b).Compare(orderTime(a)) })
	return found
}

// orderTime is when a delivery was created, by a clock that never goes back from one version of a name to the next.
func orderTime(delivery view.Delivery) time.Time {
	return cmp.Or(delivery.GetOrderTime(), delivery.GetDelivery().GetCreateTime()).AsTime()
}

// superseded reports whether members that come late get another delivery to the same group instead of this one: of each name, only the latest
// object is given. All deliveries are looked through for that, once, and only if it is asked.
func (k *keeper) superseded(delivery view.Delivery) (is func() bool) {
	return sync.OnceValue(func() bool {
		newestFirst := slices.DeleteFunc(k.desk.versions(k.group, delivery.GetDelivery().GetSpec().GetName()), func(other view.Delivery) bool {
			return other.ID() != k.id && other.GetDelivery().GetState() == groupv1.DeliveryState_DELIVERY_STATE_FAILED
		})
		return len(newestFirst) > 0 && forLate(newestFirst).ID() != k.id
	})
}

// forLate returns which of several deliveries of one name is given to members that come late: the newest, unless nothing of it was sent because
// all had the object. Then agents have it from an earlier delivery, if at all.
func forLate(newestFirst []view.Delivery) view.Delivery {
	newest := newestFirst[0]
	for _, one := range newestFirst {
		same := bytes.Equal(one.GetDelivery().GetRoot(), newest.GetDelivery().GetRoot())
		if same && (one.Running() || one.GetDelivery().GetSentBytes() > 0) {
			return one
		}
	}
	return newest
}
