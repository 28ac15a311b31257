package view

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Delivery is a delivery as stored. Its messages are shared: they must not be changed.
type Delivery struct {
	*managerv1.DeliveryRecord
	Changed store.Revision
	// Tree is nil once nobody can be fed any more.
	Tree        *Tree
	TreeChanged store.Revision
	// Receipts are those that were written since the record, by member. They take precedence over those in it.
	Receipts Receipts
	// Read is the revision of which this is the state.
	Read store.Revision
}

// ID returns the delivery's id.
func (d Delivery) ID() string { return d.GetDelivery().GetId() }

// Running reports whether the delivery has not ended.
func (d Delivery) Running() bool {
	return d.GetDelivery().GetState() == groupv1.DeliveryState_DELIVERY_STATE_RUNNING
}

// delivery is an entry of the view; the record is nil until it has been seen.
type delivery struct{ Delivery }

func (d *delivery) shown(at store.Revision) Delivery {
	shown := d.Delivery
	shown.Read = at
	return shown
}

// entry returns the entry of a delivery, made up if its record has not been seen:
// in a list, its tree comes first.
func (v *View) entry(id string) *delivery {
	d, known := v.deliveries[id]
	if !known {
		d = new(delivery)
		v.deliveries[id] = d
	}
	return d
}

func (v *View) putDelivery(id string, item store.Item) error {
	record, err := decodeDelivery(item.Value)
	if err != nil {
		return err
	}
	d := v.entry(id)
	v.countRunning(d, -1)
	d.DeliveryRecord, d.Changed = record, item.Changed
	v.countRunning(d, +1)
	return nil
}

// countRunning keeps count of how many deliveries run.
func (v *View) countRunning(d *delivery, by int) {
	if d.DeliveryRecord != nil && d.Running() {
		v.running[d.GetDelivery().GetGroup()] += by
	}
}

func (v *View) putReceipt(name string, item store.Item) error {
	record := new(groupv1.Receipt)
	if err := proto.Unmarshal(item.Value, record); err != nil {
		return err
	}
	id, member, _ := strings.Cut(name, "/")
	d := v.entry(id)
	d.Receipts = d.Receipts.With(member, Receipt{record, item.Changed})
	return nil
}

func (v *View) deleteDelivery(id string) {
	if d, known := v.deliveries[id]; known {
		v.countRunning(d, -1)
		v.noteStray(id, d.Tree)
		delete(v.deliveries, id)
	}
}

func (v *View) deleteReceipt(name string) {
	id, member, _ := strings.Cut(name, "/")
	if d, known := v.deliveries[id]; known {
		d.Receipts = d.Receipts.Without(member)
	}
}

// Delivery returns a delivery.
func (v *View) Delivery(id string) (shown Delivery, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	d, known := v.deliveries[id]
	if !known || d.DeliveryRecord == nil {
		return Delivery{}, false
	}
	return d.shown(v.revision), true
}

// Deliveries returns all deliveries for which is returns true, the newest first.
func (v *View) Deliveries(is func(Delivery) bool) []Delivery {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var found []Delivery
	for _, d := range v.deliveries {
		if d.DeliveryRecord != nil && is(d.Delivery) {
			found = append(found, d.shown(v.revision))
		}
	}
	slices.SortFunc(found, CompareDeliveries)
	return found
}

// CompareDeliveries orders deliveries: the newest first.
func CompareDeliveries(a, b Delivery) int {
	return cmp.Or(
		b.GetDelivery().GetCreateTime().AsTime().Compare(a.GetDelivery().GetCreateTime().AsTime()),
		cmp.Compare(a.ID(), b.ID()),
	)
}

// RunningDeliveries returns how many deliveries of a group run.
func (v *View) RunningDeliveries(group string) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.running[group]
}

// SessionEnd returns how the last session of a member that is not joined ended.
func (v *View) SessionEnd(groupName, name string) groupv1.MemberState {
	v.mu.RLock()
	defer v.mu.RUnlock()
	g, known := v.groups[groupName]
	if !known {
		return groupv1.MemberState_MEMBER_STATE_EXPELLED
	}
	if end, known := g.ended[name]; known {
		return end.state
	}
	return groupv1.MemberState_MEMBER_STATE_EXPIRED
}

// Changes returns channels that are closed when a member of the group comes or
// goes, and when an agent does.
func (v *View) Changes(groupName string) (members, agents <-chan struct{}) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if g, known := v.groups[groupName]; known {
		members = g.changed
	}
	return members, v.agentsChanged
}

// announceAgents tells those who wait that an agent came, changed or went.
func (v *View) announceAgents() {
	close(v.agentsChanged)
	v.agentsChanged = make(chan struct{})
}
