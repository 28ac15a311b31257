package delivery

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
	"github.com/groupcast/groupcast/services/manager/watch"
)

// Find returns the delivery whose id begins with a prefix, among those of the groups that the caller may see. It does not tell whether other
// groups have one.
func (d *Desk) Find(prefix string, sees func(group string) bool) (view.Delivery, error) {
	if err := ledger.CheckPrefix("delivery", prefix); err != nil {
		return view.Delivery{}, err
	}
	if delivery, found := d.view.Delivery(prefix); found && sees(delivery.GetDelivery().GetGroup()) {
		return delivery, nil
	}
	return theOne(prefix, d.seenBy(sees, func(delivery view.Delivery) bool { return strings.HasPrefix(delivery.ID(), prefix) }))
}

// seenBy returns the deliveries of a kind that are of groups that a caller may see, the newest first. It asks for the groups afterwards: the answer
// may come from the view, which is locked before.
func (d *Desk) seenBy(sees func(group string) bool, is func(view.Delivery) bool) []view.Delivery {
	return slices.DeleteFunc(d.view.Deliveries(is), func(delivery view.Delivery) bool { return !sees(delivery.GetDelivery().GetGroup()) })
}

// theOne returns the delivery that was found, if exactly one was.
func theOne(prefix string, found []view.Delivery) (view.Delivery, error) {
	switch len(found) {
	case 0:
		return view.Delivery{}, fmt.Errorf("delivery %.40q %w", prefix, ledger.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return view.Delivery{}, fmt.Errorf("delivery %q: %w", prefix, ErrAmbiguous)
}

// List returns up to limit deliveries of a group, or of all that the caller may see, that come after the
// one that an earlier page ended with; the newest first, without their receipts.
func (d *Desk) List(group, after string, limit int, sees func(group string) bool) (page []*groupv1.Delivery, last string, more bool) {
	all := d.seenBy(sees, func(delivery view.Delivery) bool {
		return (group == "" || delivery.GetDelivery().GetGroup() == group) && (after == "" || placeOf(delivery) > after)
	})
	more = len(all) > limit
	for _, delivery := range all[:min(limit, len(all))] {
		page, last = append(page, d.row(delivery)), placeOf(delivery)
	}
	return page, last, more
}

// placeOf returns where a delivery stands in lists: strings that order as CompareDeliveries does.
func placeOf(delivery view.Delivery) string {
	return ledger.NewestFirst(delivery.GetDelivery().GetCreateTime().AsTime(), delivery.ID())
}

// Watch sends a delivery as it is, and again whenever it changes, until it has ended. If its tree is asked for, messages also say what is new
// of that, and what links carry even before the end. Heartbeats are sent as nil.
func (d *Desk) Watch(ctx context.Context, id string, tree bool, send func(*groupv1.WatchDeliveryResponse) error) error {
	told := new(toldTree)
	return watch.Watched[*groupv1.WatchDeliveryResponse]{
		Changed: func() <-chan struct{} { return d.changes(id) },
		Show: func() (*groupv1.WatchDeliveryResponse, bool, error) {
			delivery, err := d.delivery(id)
			if err != nil {
				return nil, false, err
			}
			message := &groupv1.WatchDeliveryResponse{Delivery: d.show(delivery)}
			if k := d.find(id); k != nil && tree {
				told.tell(k, delivery, message)
			}
			if !tree && delivery.Running() && message.GetDelivery().GetMeasurements() != nil {
				message.Delivery.Measurements.Links = nil // they would be most of what is sent again and again
			}
			fitMessage(message.GetDelivery())
			return message, delivery.Running(), nil
		},
		Running: func() (bool, error) {
			delivery, err := d.delivery(id)
			return err == nil && delivery.Running(), err
		},
		Ended: d.ended, Send: send,
	}.Run(ctx)
}

// changes returns a channel that is closed when there is something new to show of a delivery.
func (d *Desk) changes(id string) <-chan struct{} {
	k := d.find(id)
	if k == nil {
		soon := make(chan struct{}) // the delivery is about to get a keeper, or has ended
		close(soon)
		return soon
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Show returns a delivery as the API shows it: as much of it as fits into a message.
func (d *Desk) Show(delivery view.Delivery) *groupv1.Delivery {
	shown := d.show(delivery)
	if k := d.find(delivery.ID()); k != nil {
		k.showIn(shown, delivery.Tree)
	}
	fitMessage(shown)
	return shown
}

// show is Show without the tree, however large it is.
func (d *Desk) show(delivery view.Delivery) *groupv1.Delivery {
	record := proto.CloneOf(delivery.DeliveryRecord)
	shown := record.GetDelivery()
	receipts := writtenReceipts(delivery)
	if delivery.Running() {
		maps.DeleteFunc(receipts, func(_ string, receipt *groupv1.Receipt) bool { return d.isBack(delivery, receipt) })
	}
	k := d.find(delivery.ID())
	if k != nil {
		k.addProgress(delivery, receipts)
	} else {
		addUnheard(delivery, receipts)
	}
	d.summarize(shown, delivery)
	shown.Receipts = sorted(receipts)
	settled := d.isSettled(delivery)
	if k != nil && (!settled || !k.isMeasured(int(shown.GetCompleteCount()))) {
		k.measureInto(record)
	}
	if shown.GetMeasurements() != nil {
		shown.Measurements.Settled = settled
	}
	addStretch(record)
	return shown
}

// row returns a delivery as lists have it, without receipts and measurements. These are not even copied: there may be thousands of deliveries,
// of thousands of members each.
func (d *Desk) row(delivery view.Delivery) *groupv1.Delivery {
	shown := new(groupv1.Delivery)
	delivery.GetDelivery().ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if name := field.Name(); name != "receipts" && name != "measurements" && name != "left_out" {
			shown.ProtoReflect().Set(field, value)
		}
		return true
	})
	d.summarize(shown, delivery)
	if k := d.find(delivery.ID()); k != nil && !d.isSettled(delivery) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.sentInto(shown)
	}
	return shown
}

// summarize fills in what is known of all members together.
func (d *Desk) summarize(shown *groupv1.Delivery, delivery view.Delivery) {
	shown.TreeVersion = max(shown.GetTreeVersion(), delivery.Tree.GetVersion())
	shown.MemberCount = uint32(len(delivery.GetMembers()))
	d.count(shown, delivery)
	if !delivery.Running() {
		shown.State = stateOf(len(delivery.GetMembers()), int(shown.GetCompleteCount()))
	}
}

// count counts how many of the members that were joined at the start have ended how.
func (d *Desk) count(shown *groupv1.Delivery, delivery view.Delivery) {
	for receipt := range allWritten(delivery) {
		switch {
		case receipt.GetLate(), delivery.Running() && d.isBack(delivery, receipt):
		case receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE:
			shown.CompleteCount++
		case receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_FAILED:
			shown.FailedCount++
		}
	}
}

func sorted(receipts map[string]*groupv1.Receipt) []*groupv1.Receipt {
	return slices.SortedFunc(maps.Values(receipts), func(a, b *groupv1.Receipt) int { return cmp.Compare(a.GetMember(), b.GetMember()) })
}

// allWritten yields all receipts that are written.
func allWritten(delivery view.Delivery) iter.Seq[*groupv1.Receipt] {
	return func(yield func(*groupv1.Receipt) bool) {
		for _, receipt := range delivery.GetDelivery().GetReceipts() {
			if _, newer := delivery.Receipts.Of(receipt.GetMember()); !newer && !yield(receipt) {
				return
			}
		}
		for _, receipt := range delivery.Receipts.All() {
			if !yield(receipt.Receipt) {
				return
			}
		}
	}
}

// writtenReceipts returns copies of all receipts that are written.
func writtenReceipts(delivery view.Delivery) map[string]*groupv1.Receipt {
	receipts := make(map[string]*groupv1.Receipt)
	for receipt := range allWritten(delivery) {
		receipts[receipt.GetMember()] = proto.CloneOf(receipt)
	}
	return receipts
}

// addProgress adds what is known of members at which the delivery is under way.
func (k *keeper) addProgress(delivery view.Delivery, receipts map[string]*groupv1.Receipt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, participant := range delivery.GetMembers() {
		if _, has := receipts[participant.GetName()]; !has {
			receipts[participant.GetName()] = k.underWay(participant.GetName(), false)
		}
	}
	for _, name := range k.lateMembers(delivery) {
		if _, has := receipts[name]; !has {
			receipts[name] = k.underWay(name, true)
		}
	}
	for name, receipt := range receipts {
		if k.tree != nil {
			parent, _ := k.tree.Parent(placement.MemberID(name).String())
			receipt.Parent = placement.ParseID(parent).Name
		}
	}
}

// addUnheard adds the members at which a delivery is under way although it has no keeper: it is about to get one, or this manager no longer
// leads. A member without a receipt would seem to be waited for no longer.
func addUnheard(delivery view.Delivery, receipts map[string]*groupv1.Receipt) {
	if !delivery.Running() {
		return
	}
	for _, participant := range delivery.GetMembers() {
		if name := participant.GetName(); receipts[name] == nil {
			receipts[name] = &groupv1.Receipt{Member: name, State: groupv1.ReceiptState_RECEIPT_STATE_RECEIVING, BytesUnknown: true}
		}
	}
}

func (k *keeper) underWay(name string, late bool) *groupv1.Receipt {
	receipt := &groupv1.Receipt{Member: name, State: groupv1.ReceiptState_RECEIPT_STATE_RECEIVING, Late: late}
	k.fillIn(receipt)
	if since, unknown := k.progress.unknownSince(name); unknown {
		receipt.State, receipt.ChangeTime = groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN, timestamppb.New(since)
	}
	if !k.progress.queuedSince(placement.MemberID(name), time.Now()).IsZero() {
		receipt.Detail = "it waits for its turn at the member's program, which receives so many deliveries at once"
	}
	return receipt
}

// fillIn fills in how much a member has: by its last report or, if it has not reported to this leader, by what agents say that it acknowledged.
// If they say nothing either, or may mean an agent of the same name, it is unknown. The caller has the lock.
func (k *keeper) fillIn(receipt *groupv1.Receipt) {
	report, isAll := k.progress.said(placement.MemberID(receipt.GetMember()))
	receipt.Bytes, receipt.Datagrams = report.GetBytes(), report.GetDatagrams()
	if isAll {
		return
	}
	if _, hasNamesake := k.desk.view.Agent(receipt.GetMember()); !hasNamesake {
		receipt.Bytes = k.progress.acked[receipt.GetMember()]
	}
	receipt.BytesUnknown = receipt.GetBytes() == 0
}

// measureInto fills in what is measured of a delivery: how much was sent, and the
// evaluation indices of paper 000, section IV-B.
func (k *keeper) measureInto(record *managerv1.DeliveryRecord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, d := k.progress, record.GetDelivery()
	m := measuring{record: record, progress: p, now: time.Now()}
	if d.GetEndTime() != nil {
		m.now = d.GetEndTime().AsTime()
	}
	d.LeftOut = nil // it is measured again
	k.sentInto(d)
	m.measure()
}

// sentInto fills in how much of a delivery was sent. The caller has the lock.
func (k *keeper) sentInto(d *groupv1.Delivery) {
	p := k.progress
	d.SentBytes = max(d.GetSentBytes(), p.nodes[p.sender].reported().GetBytes())
	// The sender's last report may still be on its way. But if it did report, and neither it nor any link says that anything was sent,
	// everybody had the object already.
	if d.GetState() == groupv1.DeliveryState_DELIVERY_STATE_COMPLETE && (d.GetSentBytes() > 0 || p.nodes[p.sender] == nil || p.carried()) {
		d.SentBytes = d.GetLength()
	}
}

// carried reports whether any link is known to have carried anything.
func (p *progress) carried() bool {
	for _, use := range p.links {
		if use.bytes > 0 {
			return true
		}
	}
	return false
}
