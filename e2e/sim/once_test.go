package sim

import (
	"context"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// A member that receives one delivery refuses others meanwhile: their senders do not wait for it until it has left.
func TestWhoReceivesOnceRefusesOthers(t *testing.T) {
	s := twoAgents(sdk.Hop, 2*block)
	inWorld(t, s, func(*world) {}, func(w *world) {
		at := place{name: "once", node: "a1"}
		w.receivers = append(w.receivers, at)
		w.startMember(at, func(ctx context.Context, _ *life, client *sdk.Client) error {
			session, err := join(ctx, client, at, sdk.Receive)
			if err != nil {
				return err
			}
			defer session.Close()
			for range session.Receive(ctx, sdk.ReceiveOptions{Into: w.into(at.name), Once: true}) {
				break
			}
			<-ctx.Done()
			return nil
		})
		w.await("it has joined", func() bool { return w.members()[at.name] != 0 })
		content, to, out := w.beginStream(s.deliveries[0])
		_, err := to.Write(content[:block])
		w.must(err)
		w.awaitBytes(out, block, at.name, "r1", "r2")
		second, err := w.sending.Send(context.Background(), w.write(parcel{name: "second", size: block}), sdk.SendOptions{})
		w.must(err)
		ended := w.awaitEnd(second.ID(), 30*time.Second)
		for _, receipt := range ended.Receipts {
			got := string(receipt.State) + receipt.Reason
			if want := map[bool]string{true: "failedrefused", false: "complete"}[receipt.Member == at.name]; got != want {
				w.Errorf("the second at %s: %s (%s), want %s", receipt.Member, got, receipt.Detail, want)
			}
		}
		if len(ended.Receipts) != 3 {
			w.Errorf("the second is %s", standing(ended))
		}
		_, err = to.Write(content[block:])
		w.must(err)
		w.must(to.Close())
		if first := w.awaitEnd(out.ID(), time.Minute); first.State != sdk.DeliveryComplete {
			w.Errorf("the first is %s", standing(first))
		}
	})
}
