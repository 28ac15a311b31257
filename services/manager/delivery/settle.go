package delivery

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/moment"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// settlePause is how long after the end, or after a later receipt, the measurements are written once more at the latest: the last reports come
// after the last receipt.
const settlePause = 2500 * time.Millisecond

// settle writes the measurements of an ended delivery when agents have told the last of what they did, or have had time to. It writes them
// again when members have got the delivery after that. It returns when there may be something to write.
func (k *keeper) settle(ctx context.Context, delivery view.Delivery, now time.Time) (due time.Time, err error) {
	end := delivery.GetDelivery().GetEndTime().AsTime()
	complete, last := completed(delivery)
	settled := moment.Latest(end, last).Add(settlePause)
	switch {
	case k.isMeasured(complete):
		return time.Time{}, nil
	case !now.Before(settled), last.Before(end) && k.allRest(): // before a receipt after the end they may have rested, and not since
		return time.Time{}, k.writeMeasurements(ctx, delivery, complete)
	}
	return settled, nil
}

// completed returns how many of the members that were joined at the start have a delivery, and since when the last of them has.
func completed(delivery view.Delivery) (members int, last time.Time) {
	for receipt := range allWritten(delivery) {
		if receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE && !receipt.GetLate() {
			members, last = members+1, moment.Latest(last, receipt.GetChangeTime().AsTime())
		}
	}
	return members, last
}

// isMeasured reports whether the measurements are written for good, as long as no more members have the delivery than these.
func (k *keeper) isMeasured(complete int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hadEnded || k.measured == complete
}

// isSettled reports whether nothing more is measured of a delivery.
func (d *Desk) isSettled(delivery view.Delivery) bool {
	end := delivery.GetDelivery().GetEndTime().AsTime()
	return !delivery.Running() && (delivery.GetDelivery().GetMeasurements().GetSettled() || time.Since(end) > 2*settlePause || end.Before(d.started))
}

// writeMeasurements writes the measurements of an ended delivery that a number of its members have, and counts them if they are the first.
func (k *keeper) writeMeasurements(ctx context.Context, delivery view.Delivery, complete int) error {
	record := proto.CloneOf(delivery.DeliveryRecord)
	record.Delivery.Receipts = sorted(writtenReceipts(delivery)) // the measurements cover all receipts
	record.Delivery.State = stateOf(len(record.GetMembers()), complete)
	k.measureInto(record)
	record.Delivery.State = delivery.GetDelivery().GetState() // how it ended says for how long agents keep it
	record.Delivery.Measurements.Settled = true
	record.Delivery.Receipts = withoutWritten(record.GetDelivery().GetReceipts(), delivery.Receipts)
	encoded, _, err := encodeEnded(record, delivery.Receipts)
	if err != nil {
		return err
	}
	key := view.DeliveryKey(k.id)
	at, err := k.desk.store.Commit(ctx, k.desk.ledger.Term(),
		[]store.Cond{store.Unchanged(key, delivery.Changed)}, []store.Op{store.Put(key, encoded)})
	if err != nil {
		return err
	}
	if err := k.desk.view.Await(ctx, at); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.measured < 0 {
		k.desk.metrics.measured(record.GetDelivery().GetMeasurements())
	}
	k.measured = complete
	return nil
}

// allRest reports whether all of a delivery's agents have reported the last of what they did.
func (k *keeper) allRest() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.assigned {
		if id.Role == identity.Agent && !k.progress.nodes[id].reported().GetResting() {
			return false
		}
	}
	return true
}
