package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

// Members that all send and receive at once have what each of them sent, though an agent is killed in the middle.
func TestManyToMany(t *testing.T) {
	const members, size = 4, 3 << 20
	for name, kills := range map[string]bool{"undisturbed": false, "an agent is killed": true} {
		t.Run(name, func(t *testing.T) {
			s := twoAgents(sdk.Hop, 2*block)
			s.receivers = nil
			inWorld(t, s, func(w *world) {
				w.network.ShapeAll(simnet.Shape{Latency: time.Millisecond, Rate: 1 << 20})
			}, func(w *world) {
				joined := make(chan *sdk.Session, members)
				for i := range members {
					at := place{name: fmt.Sprintf("m%d", i), node: fmt.Sprintf("a%d", i%2+1)}
					w.receivers = append(w.receivers, at)
					w.startMember(at, func(ctx context.Context, _ *life, client *sdk.Client) error {
						session, err := client.Join(ctx, sdk.Join{Group: group, Name: at.name, Node: at.node, Roles: []sdk.Role{sdk.Send, sdk.Receive}})
						if err != nil {
							return err
						}
						defer session.Close()
						joined <- session
						for arrived, err := range session.Receive(ctx, sdk.ReceiveOptions{Into: w.into(at.name)}) {
							if ctx.Err() == nil && (err != nil || arrived.Err != nil) {
								w.Errorf("%s: %s: %v, %v", at.name, arrived.Name, err, arrived.Err)
							}
						}
						return nil
					})
				}
				var sessions []*sdk.Session
				for range members {
					sessions = append(sessions, <-joined)
				}
				w.await("all have joined", func() bool { return len(w.members()) == members+1 })
				var sent []*sdk.Outgoing
				for i, session := range sessions {
					out, err := session.Send(w.Context(), w.write(parcel{name: fmt.Sprintf("object-%d", i), size: size}), sdk.SendOptions{})
					w.must(err)
					sent = append(sent, out)
				}
				time.Sleep(time.Second)
				for _, out := range sent {
					if now, err := w.operator.Delivery(w.Context(), out.ID()); err != nil || now.State != sdk.DeliveryRunning || now.SentBytes == 0 {
						w.Errorf("after a second, %v: %s", err, standing(now))
					}
				}
				if kills {
					w.killed("a2")
					time.Sleep(5 * time.Second)
					w.restarted("a2")
				}
				for i, out := range sent {
					ended := w.awaitEnd(out.ID(), endTime)
					if ended.State != sdk.DeliveryComplete || len(ended.Receipts) != members-1 {
						w.Errorf("object-%d: %s", i, standing(ended))
					}
					for _, receipt := range ended.Receipts {
						name := fmt.Sprintf("object-%d", i)
						if err := same(filepath.Join(w.dir, senderHost, name), filepath.Join(w.into(receipt.Member), name)); err != nil {
							w.Errorf("%s: %v", receipt.Member, err)
						}
					}
				}
			})
		})
	}
}
