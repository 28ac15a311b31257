package delivery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// failBatch is how many receipts are written in one transaction.
const failBatch = store.MaxOps / 2

// fail writes that members have failed while the delivery goes on.
func (d *Desk) fail(ctx context.Context, delivery view.Delivery, failed map[string]failure, now time.Time) error {
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(failed)), failBatch) {
		plan := ledger.Plan{Conditions: []store.Cond{store.Unchanged(view.DeliveryKey(delivery.ID()), delivery.Changed)}}
		for _, name := range batch {
			key := view.ReceiptKey(delivery.ID(), name)
			encoded, err := proto.Marshal(d.failedReceipt(delivery, name, failed[name], now))
			if err != nil {
				return fmt.Errorf("encode receipt: %w", err)
			}
			written, _ := delivery.Receipts.Of(name)
			plan.Conditions = append(plan.Conditions, store.Unchanged(key, written.Changed))
			plan.Changes = append(plan.Changes, store.Put(key, encoded))
		}
		at, err := d.store.GoOn(ctx, d.ledger.Term(), plan.Conditions, plan.Changes)
		if err != nil {
			return err
		}
		for _, name := range batch {
			d.metrics.receipt(groupv1.ReceiptState_RECEIPT_STATE_FAILED, failed[name].reason)
		}
		if err := d.view.Await(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

func (d *Desk) failedReceipt(delivery view.Delivery, name string, why failure, now time.Time) *groupv1.Receipt {
	receipt := &groupv1.Receipt{
		Member: name, State: groupv1.ReceiptState_RECEIPT_STATE_FAILED, Reason: why.reason, Detail: why.detail,
		ChangeTime: timestamppb.New(now), Late: !isAtStart(delivery, name),
	}
	if k := d.find(delivery.ID()); k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.fillIn(receipt)
	}
	return receipt
}

// end ends a delivery: all in one transaction, with every receipt as it is then.
func (d *Desk) end(ctx context.Context, delivery view.Delivery, v verdict, now time.Time) error {
	plan, record, err := d.planEnd(delivery, v, now)
	if err != nil {
		return err
	}
	at, err := d.store.Commit(ctx, d.ledger.Term(), plan.Conditions, plan.Changes)
	if err != nil {
		return err
	}
	d.noteEnd(delivery, record, v)
	return d.view.Await(ctx, at)
}

func (d *Desk) planEnd(delivery view.Delivery, v verdict, now time.Time) (ledger.Plan, *managerv1.DeliveryRecord, error) {
	record := proto.CloneOf(delivery.DeliveryRecord)
	record.Delivery.EndTime, record.Delivery.Reason, record.Detail = timestamppb.New(now), v.reason, v.detail
	record.Delivery.Receipts = d.finalReceipts(delivery, v, now)
	complete := 0
	for _, receipt := range record.GetDelivery().GetReceipts() {
		if !receipt.GetLate() && receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE {
			complete++
		}
	}
	record.Delivery.State = stateOf(len(record.GetMembers()), complete)
	if k := d.find(delivery.ID()); k != nil {
		k.measureInto(record)
	}
	encoded, hasAll, err := encodeEnded(record, delivery.Receipts)
	if err != nil {
		return ledger.Plan{}, nil, err
	}
	id := delivery.ID()
	plan := ledger.Plan{
		Conditions: []store.Cond{
			store.Unchanged(view.DeliveryKey(id), delivery.Changed),
			store.UnchangedBelow(view.ReceiptsPrefix(id), delivery.Read),
		},
		Changes: []store.Op{
			store.Put(view.DeliveryKey(id), encoded), store.Delete(view.RunningKey(delivery.GetDelivery().GetGroup(), id)),
		},
	}
	if hasAll {
		plan.Changes = append(plan.Changes, store.DeleteAll(view.ReceiptsPrefix(id)))
	}
	return plan, record, nil
}

// finalReceipts returns the receipts of all members that were joined at the start,
// and of those that came later and have ended.
func (d *Desk) finalReceipts(delivery view.Delivery, v verdict, now time.Time) (receipts []*groupv1.Receipt) {
	k := d.find(delivery.ID())
	for _, written := range delivery.Receipts.All() {
		if written.GetLate() {
			receipts = append(receipts, proto.CloneOf(written.Receipt))
		}
	}
	for _, participant := range delivery.GetMembers() {
		name := participant.GetName()
		written, has := delivery.Receipts.Of(name)
		switch why, failed := v.failed[name]; {
		case has:
			receipts = append(receipts, proto.CloneOf(written.Receipt))
		case failed:
			receipts = append(receipts, d.failedReceipt(delivery, name, why, now))
		default:
			receipts = append(receipts, k.unknownReceipt(name, now))
		}
	}
	slices.SortFunc(receipts, func(a, b *groupv1.Receipt) int { return cmp.Compare(a.GetMember(), b.GetMember()) })
	return receipts
}

// unknownReceipt returns the receipt of a member that is not heard of. k may be nil.
func (k *keeper) unknownReceipt(name string, now time.Time) *groupv1.Receipt {
	receipt := &groupv1.Receipt{
		Member: name, State: groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN, ChangeTime: timestamppb.New(now),
	}
	if k == nil {
		return receipt
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fillIn(receipt)
	if since, known := k.progress.unknownSince(name); known {
		receipt.ChangeTime = timestamppb.New(since)
	}
	return receipt
}

// noteEnd counts and logs the end of a delivery.
func (d *Desk) noteEnd(before view.Delivery, record *managerv1.DeliveryRecord, v verdict) {
	ended := record.GetDelivery()
	d.metrics.deliveryEnded(ended.GetState())
	for _, receipt := range ended.GetReceipts() {
		if _, counted := before.Receipts.Of(receipt.GetMember()); !counted {
			d.metrics.receipt(receipt.GetState(), receipt.GetReason())
		}
	}
	d.log.Info("a delivery ended", "delivery", ended.GetId(), "group", ended.GetGroup(), "state", ended.GetState().String(), "reason", v.reason)
}
