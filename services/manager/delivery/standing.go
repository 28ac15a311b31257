package delivery

import (
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Standing sums up all running deliveries, for metrics. What a single delivery does is told to a client that asks for that delivery: in
// metrics, each would be a series of its own.
type Standing struct {
	// UnderWay is how many of the bytes that were sent are missing at members that were joined at the start, added up over these members.
	UnderWay uint64
	// Effective is the lowest effective throughput of the deliveries of which something was sent; 1 if there are none.
	Effective float64
}

// Standing sums up the deliveries that run.
func (d *Desk) Standing() Standing {
	s := Standing{Effective: 1}
	for _, delivery := range d.view.Deliveries(view.Delivery.Running) {
		s.add(d.show(delivery))
	}
	return s
}

func (s *Standing) add(shown *groupv1.Delivery) {
	sent := shown.GetSentBytes()
	for _, receipt := range shown.GetReceipts() {
		if receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_RECEIVING && !receipt.GetLate() {
			s.UnderWay += sent - min(sent, receipt.GetBytes())
		}
	}
	if shown.GetMeasurements().GetSendBytesPerSecond() > 0 { // it is known, and was not 0
		s.Effective = min(s.Effective, shown.GetMeasurements().GetEffectiveThroughput())
	}
}
