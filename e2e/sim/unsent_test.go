package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// A delivery whose beginning its sender did not hear of, as when the answer was lost with the managers' majority, ends, though the sender's
// session goes on, and so does what it sends besides.
func TestWhatNobodySendsEnds(t *testing.T) {
	s := twoAgents(sdk.Hop, 1<<20)
	inWorld(t, s, func(*world) {}, func(w *world) {
		managers, err := uplink.Dial(w.sender, w.log, uplink.Over(w.host(senderHost)))
		w.must(err)
		defer managers.Close()
		begun, err := groupv1.NewDeliveryServiceClient(managers).CreateDelivery(w.Context(), &groupv1.CreateDeliveryRequest{
			Group: group, Sender: w.sending.Member().Name, Incarnation: w.sending.Member().Incarnation, RequestId: "unheard",
			Spec: &groupv1.DeliverySpec{Name: "unheard", Kind: groupv1.DeliveryKind_DELIVERY_KIND_FILE, Length: 1 << 20},
		})
		w.must(err)
		content, to, out := w.beginStream(s.deliveries[0]) // and pauses
		ended := w.awaitEnd(begun.GetDelivery().GetId(), 2*time.Minute)
		for _, receipt := range ended.Receipts {
			if receipt.State != sdk.ReceiptFailed || receipt.Reason != "sender_lost" {
				w.Errorf("%s is %s (%s)", receipt.Member, receipt.State, receipt.Reason)
			}
		}
		if len(ended.Receipts) == 0 {
			w.Errorf("the delivery is %s", standing(ended))
		}
		_, err = to.Write(content)
		w.must(err)
		w.must(to.Close())
		if sent := w.awaitEnd(out.ID(), time.Minute); sent.State != sdk.DeliveryComplete {
			w.Errorf("what the sender sends is %s", standing(sent))
		}
	})
}

// How long a stream is shows only as it comes. One that becomes longer than its group allows fails, at its end or before it, and everybody
// learns why.
func TestStreamThatBecomesTooLong(t *testing.T) {
	const most = 1 << 20
	for name, ends := range map[string]bool{"and ends at once": true, "and goes on": false} {
		t.Run(name, func(t *testing.T) {
			s := twoAgents(sdk.Hop, 2*most)
			s.policy.Limits.MaxObjectBytes = most
			inWorld(t, s, func(*world) {}, func(w *world) {
				content, to, out := w.beginStream(s.deliveries[0])
				go func() {
					_, _ = to.Write(content) // if it has failed already, nobody reads on
					if ends {
						_ = to.Close()
					}
				}()
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				ended, err := out.Wait(ctx)
				w.must(err)
				for _, receipt := range ended.Receipts {
					if receipt.State != sdk.ReceiptFailed || receipt.Reason != "failed" || !strings.Contains(receipt.Detail, "larger than the group's policy allows") {
						w.Errorf("%s is %s: %s (%s)", receipt.Member, receipt.State, receipt.Reason, receipt.Detail)
					}
				}
				if len(ended.Receipts) != len(s.receivers) {
					w.Errorf("the delivery is %s", standing(ended))
				}
				w.must(to.CloseWithError(context.Canceled))
			})
		})
	}
}
