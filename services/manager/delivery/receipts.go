package delivery

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// rootLength is how long a root hash is, in bytes.
	rootLength = 32
	// maxDetail is how much is kept of an explanation for people: it may name paths of any length.
	maxDetail = 1024
)

// delivery returns a delivery by its whole id.
func (d *Desk) delivery(id string) (view.Delivery, error) {
	delivery, found := d.view.Delivery(id)
	if !found {
		return view.Delivery{}, fmt.Errorf("delivery %.40q %w", id, ledger.ErrNotFound)
	}
	return delivery, nil
}

// Seal notes what was sent, or why no more will be.
func (d *Desk) Seal(ctx context.Context, asked *groupv1.SealDeliveryRequest) (*groupv1.SealDeliveryResponse, error) {
	if err := checkSeal(asked); err != nil {
		return nil, err
	}
	var ended func()
	err := d.ledger.Write(ctx, ledger.Request{}, nil, func() (plan ledger.Plan, err error) {
		ended = func() {}
		delivery, err := d.delivery(asked.GetDelivery())
		if err != nil {
			return ledger.Plan{}, err
		}
		if asked.GetIncarnation() != delivery.GetSenderIncarnation() {
			return ledger.Plan{}, fmt.Errorf("seal delivery %s: %w", asked.GetDelivery(), ErrSession)
		}
		if asked.GetReason() != "" {
			plan, ended, err = d.planGiveUp(delivery, asked.GetReason(), ledger.Clip(asked.GetDetail(), maxDetail))
			return plan, err
		}
		return d.planSeal(delivery, asked)
	})
	if err == nil {
		ended()
		d.poke(asked.GetDelivery())
	}
	return &groupv1.SealDeliveryResponse{}, err
}

func checkSeal(asked *groupv1.SealDeliveryRequest) error {
	var problems ledger.Checks
	if asked.GetReason() != "" {
		problems.That(slices.Contains(senderReasons, asked.GetReason()), "reason", "%.40q is not one of %v", asked.GetReason(), senderReasons)
		return problems.Err()
	}
	problems.That(len(asked.GetRoot()) == rootLength, "root", "has %d bytes: want %d", len(asked.GetRoot()), rootLength)
	return problems.Err()
}

// planGiveUp ends a delivery at all members that do not have it.
func (d *Desk) planGiveUp(delivery view.Delivery, reason, detail string) (plan ledger.Plan, ended func(), err error) {
	if !delivery.Running() {
		return ledger.Plan{}, nil, endedError(delivery)
	}
	v := verdict{failed: make(map[string]failure), ended: true, reason: reason, detail: detail}
	for _, participant := range delivery.GetMembers() {
		if _, has := delivery.Receipts.Of(participant.GetName()); !has {
			v.failed[participant.GetName()] = failure{reason, detail}
		}
	}
	plan, record, err := d.planEnd(delivery, v, time.Now())
	return plan, func() { d.noteEnd(delivery, record, v) }, err
}

func endedError(delivery view.Delivery) error {
	if reason := delivery.GetDelivery().GetReason(); reason != "" {
		return fmt.Errorf("delivery %s: %w (%s)", delivery.ID(), ErrEnded, reason)
	}
	return fmt.Errorf("delivery %s: %w", delivery.ID(), ErrEnded)
}

func (d *Desk) planSeal(delivery view.Delivery, asked *groupv1.SealDeliveryRequest) (ledger.Plan, error) {
	known := delivery.GetDelivery()
	if known.GetSealed() {
		if known.GetLength() != asked.GetLength() || !bytes.Equal(known.GetRoot(), asked.GetRoot()) {
			return ledger.Plan{}, fmt.Errorf("seal delivery %s: %w", delivery.ID(), ErrSealed)
		}
		return ledger.Plan{}, nil
	}
	if !delivery.Running() {
		return ledger.Plan{}, endedError(delivery)
	}
	if spec := known.GetSpec(); !spec.GetLengthUnknown() && spec.GetLength() != asked.GetLength() {
		var problems ledger.Checks
		problems.That(false, "length", "is %d, but the delivery began with %d", asked.GetLength(), spec.GetLength())
		return ledger.Plan{}, problems.Err()
	}
	if _, group, found := d.view.Group(known.GetGroup()); found && known.GetSpec().GetLengthUnknown() { // else that was looked at when it began
		if err := checkSize(known.GetGroup(), group.GetPolicy().GetLimits(), asked.GetLength()); err != nil {
			return ledger.Plan{}, err
		}
	}
	record := proto.CloneOf(delivery.DeliveryRecord)
	record.Delivery.Sealed, record.Delivery.Length, record.Delivery.Root = true, asked.GetLength(), asked.GetRoot()
	record.Delivery.Datagrams, record.SealTime = asked.GetDatagrams(), timestamppb.Now()
	encoded, err := view.EncodeDelivery(record)
	if err != nil {
		return ledger.Plan{}, err
	}
	return ledger.Put(view.DeliveryKey(delivery.ID()), encoded, delivery.Changed), nil
}

// Record notes how a delivery ended at a member. What is noted first stays, but that a member left which is back.
func (d *Desk) Record(ctx context.Context, asked *groupv1.RecordReceiptRequest) (*groupv1.RecordReceiptResponse, error) {
	if err := checkReceipt(asked); err != nil {
		return nil, err
	}
	var noted *groupv1.Receipt
	err := d.ledger.Write(ctx, ledger.Request{}, nil, func() (plan ledger.Plan, err error) {
		plan, noted, err = d.planReceipt(asked)
		return plan, err
	})
	if err != nil {
		return nil, err
	}
	if noted != nil {
		d.metrics.receipt(noted.GetState(), noted.GetReason())
		d.poke(asked.GetDelivery())
	}
	return &groupv1.RecordReceiptResponse{}, nil
}

func checkReceipt(asked *groupv1.RecordReceiptRequest) error {
	var problems ledger.Checks
	complete, failed := asked.GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE, asked.GetState() == groupv1.ReceiptState_RECEIPT_STATE_FAILED
	problems.That(complete || failed, "state", "is neither COMPLETE nor FAILED")
	problems.That(!failed || slices.Contains(memberReasons, asked.GetReason()), "reason", "%.40q is not one of %v", asked.GetReason(), memberReasons)
	problems.That(!complete || asked.GetReason() == "", "reason", "is for what has failed")
	problems.That(!complete || len(asked.GetRoot()) == rootLength, "root", "has %d bytes: want %d", len(asked.GetRoot()), rootLength)
	problems.That(len(asked.GetRoot()) <= rootLength, "root", "has %d bytes: want %d", len(asked.GetRoot()), rootLength)
	return problems.Err()
}

// planReceipt plans to write a receipt. It returns none if there is nothing to write.
func (d *Desk) planReceipt(asked *groupv1.RecordReceiptRequest) (ledger.Plan, *groupv1.Receipt, error) {
	delivery, err := d.delivery(asked.GetDelivery())
	if err != nil {
		return ledger.Plan{}, nil, err
	}
	name := asked.GetMember()
	if err := d.mayRecord(delivery, asked); err != nil {
		return ledger.Plan{}, nil, fmt.Errorf("receipt of member %q for delivery %s: %w", name, delivery.ID(), err)
	}
	earlier := receiptOf(delivery, name)
	state := earlier.GetState()
	if isFinal := state == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE || state == groupv1.ReceiptState_RECEIPT_STATE_FAILED; isFinal && !d.isBack(delivery, earlier) {
		return ledger.Plan{}, nil, nil
	}
	now := time.Now()
	receipt := &groupv1.Receipt{
		Member: name, State: asked.GetState(), Reason: asked.GetReason(), Detail: ledger.Clip(asked.GetDetail(), maxDetail),
		Bytes: asked.GetBytes(), Root: asked.GetRoot(), Late: !isAtStart(delivery, name), ChangeTime: timestamppb.New(now),
		Datagrams: asked.GetDatagrams(),
	}
	if receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE {
		receipt.Elapsed = durationpb.New(now.Sub(delivery.GetDelivery().GetCreateTime().AsTime()))
	}
	written, _ := delivery.Receipts.Of(name)
	plan, err := ledger.PutMessage(view.ReceiptKey(delivery.ID(), name), receipt, written.Changed)
	plan.Conditions = append(plan.Conditions, store.Unchanged(view.DeliveryKey(delivery.ID()), delivery.Changed)) // receipts go into it when it ends
	return plan, receipt, err
}

// mayRecord refuses receipts of members that have no part in the delivery, and of members that claim to have something else than what was
// sealed.
func (d *Desk) mayRecord(delivery view.Delivery, asked *groupv1.RecordReceiptRequest) error {
	member, joined := d.view.Member(delivery.GetDelivery().GetGroup(), asked.GetMember())
	late := !isAtStart(delivery, asked.GetMember())
	switch {
	case !joined || member.GetIncarnation() != asked.GetIncarnation():
		return ErrSession
	case late && !d.fed(delivery.ID(), asked.GetMember()) && receiptOf(delivery, asked.GetMember()) == nil:
		return ErrNoPart
	case asked.GetState() != groupv1.ReceiptState_RECEIPT_STATE_COMPLETE:
		return nil
	}
	known := delivery.GetDelivery()
	switch {
	case !known.GetSealed():
		return ErrNotSealed
	case late && known.GetSpec().GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_STREAM, isDatagrams(delivery):
		return nil // the member has a stream from where it joined, or the datagrams that were not lost: there is nothing to compare with
	case asked.GetBytes() != known.GetLength() || !bytes.Equal(asked.GetRoot(), known.GetRoot()):
		return ErrMismatch
	}
	return nil
}

// fed reports whether somebody feeds a member.
func (d *Desk) fed(id, name string) bool {
	k := d.find(id)
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tree == nil || k.tree.Sender() == placement.MemberID(name).String() {
		return false
	}
	_, has := k.tree.Node(placement.MemberID(name).String())
	return has
}

// Cancel ends a delivery. One that has ended stays as it is.
func (d *Desk) Cancel(ctx context.Context, id string) (*groupv1.CancelDeliveryResponse, error) {
	var ended func()
	err := d.ledger.Write(ctx, ledger.Request{}, nil, func() (plan ledger.Plan, err error) {
		ended = func() {}
		delivery, err := d.delivery(id)
		if err != nil || !delivery.Running() {
			return ledger.Plan{}, err
		}
		plan, ended, err = d.planGiveUp(delivery, Canceled, "the delivery was canceled")
		return plan, err
	})
	if err != nil {
		return nil, err
	}
	ended()
	d.poke(id)
	delivery, err := d.delivery(id)
	if err != nil {
		return nil, err
	}
	return &groupv1.CancelDeliveryResponse{Delivery: d.Show(delivery)}, nil
}
