package sim

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/sdk"
)

// released is so much of a stream that its sender keeps nothing of the beginning once all have it.
const (
	released = 24 << 20
	block    = 64 << 10
)

// A member that joins a stream, or begins it anew, when its beginning is no longer kept is told so, and holds up nobody: the others
// get the stream as it comes.
func TestWhoComesToAStreamTooLateStopsNobody(t *testing.T) {
	for _, mode := range []sdk.ControlMode{sdk.Hop, sdk.EndToEnd} {
		t.Run(string(mode), func(t *testing.T) {
			s := twoAgents(mode, 40<<20)
			inWorld(t, s, func(*world) {}, func(w *world) {
				content, to, out := w.beginStream(s.deliveries[0])
				_, err := to.Write(content[:released])
				w.must(err)
				w.awaitBytes(out, released, "r1", "r2")
				time.Sleep(2 * time.Second) // until the sender knows that
				_, err = to.Write(content[released : released+block])
				w.must(err)
				w.awaitBytes(out, released+block, "r1", "r2") // and has given the beginning back
				w.kill("r1")
				w.receivers = append(w.receivers, place{name: "late", node: "a2"})
				w.startReceiver(w.receivers[2])
				time.Sleep(5 * time.Second)
				_, err = to.Write(content[released+block:])
				w.must(err)
				w.awaitBytes(out, uint64(len(content)), "r2")
				w.must(to.Close())
				ended := w.awaitEnd(out.ID(), time.Minute)
				w.checkWhole("r2", "object-0")
				for _, receipt := range ended.Receipts {
					if whole := receipt.Member == "r2"; whole != (receipt.State == sdk.ReceiptComplete) || !whole && receipt.Reason != "failed" {
						t.Errorf("%s is %s %s (%s)", receipt.Member, receipt.State, receipt.Reason, receipt.Detail)
					}
				}
				if len(ended.Receipts) != 3 {
					t.Errorf("the delivery is %s", standing(ended))
				}
			})
		})
	}
}

// A member that loses its agent gets what it lacks at the next one, even if that has already given it back: the sender still
// has it.
func TestMovedMemberOfAStreamGoesOnAtOnce(t *testing.T) {
	for _, mode := range []sdk.ControlMode{sdk.Hop, sdk.EndToEnd} {
		t.Run(string(mode), func(t *testing.T) {
			s := twoAgents(mode, 40<<20)
			inWorld(t, s, func(w *world) { w.network.Narrow("a1", "r1") }, func(w *world) {
				content, to, out := w.beginStream(s.deliveries[0])
				_, err := to.Write(content[:released])
				w.must(err)
				if mode == sdk.Hop {
					w.awaitBytes(out, released, "r2")
				}
				w.network.Heal("a1", "r1")
				w.network.Host("a1").Kill()
				w.killed("a1")
				w.awaitBytes(out, released, "r1", "r2")
				_, err = to.Write(content[released:])
				w.must(err)
				w.must(to.Close())
				ended := w.awaitEnd(out.ID(), time.Minute)
				w.checkOutcome(s.deliveries[0], ended)
				if ended.State != sdk.DeliveryComplete {
					t.Errorf("the delivery is %s", standing(ended))
				}
				w.network.Host("a1").Restart()
				w.restarted("a1")
			})
		})
	}
}

func twoAgents(mode sdk.ControlMode, size int) scenario {
	return scenario{
		agents:     []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "y", 16 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}},
		policy:     sdk.Policy{ControlMode: mode},
		deliveries: []parcel{{name: "object-0", size: size, stream: true}},
	}
}

// beginStream begins a stream of what is written to it.
func (w *world) beginStream(p parcel) (content []byte, to *io.PipeWriter, out *sdk.Outgoing) {
	w.Helper()
	content, err := os.ReadFile(w.write(p))
	w.must(err)
	from, to := io.Pipe()
	out, err = w.sending.SendStream(context.Background(), from, sdk.SendOptions{Name: p.name})
	w.must(err)
	return content, to, out
}

// awaitBytes waits until members have acknowledged so many bytes.
func (w *world) awaitBytes(out *sdk.Outgoing, bytes uint64, members ...string) {
	w.Helper()
	var standsAt sdk.Delivery
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second / 4) {
		now, err := w.operator.Delivery(context.Background(), out.ID())
		w.must(err)
		standsAt = now
		have := 0
		for _, receipt := range now.Receipts {
			for _, member := range members {
				if receipt.Member == member && receipt.Bytes >= bytes {
					have++
				}
			}
		}
		if have == len(members) {
			return
		}
	}
	w.Fatalf("not all of %v have %d bytes: %s", members, bytes, standing(standsAt))
}

// kill kills a program, which is restarted a second later.
func (w *world) kill(host string) {
	w.network.Host(host).Kill()
	w.killed(host)
	time.Sleep(time.Second)
	w.network.Host(host).Restart()
	w.restarted(host)
}

// A stream goes on while all managers are gone, though its sender has room for a part of it only: agents say what the members below them have, in
// either control mode.
func TestStreamGoesOnWithoutManagers(t *testing.T) {
	const size, kept = 120 << 20, 48 << 20
	for _, mode := range []sdk.ControlMode{sdk.Hop, sdk.EndToEnd} {
		t.Run(string(mode), func(t *testing.T) {
			s := twoAgents(mode, size)
			s.receivers = append(s.receivers, place{name: "r3", node: "a2"})
			t.Setenv("TMPDIR", testdisk.Memory(t, fmt.Sprintf("size=%d", kept)))
			inWorld(t, s, func(*world) {}, func(w *world) {
				content, to, out := w.beginStream(s.deliveries[0])
				_, err := to.Write(content[:block])
				w.must(err)
				w.awaitBytes(out, block, "r1", "r2", "r3")
				w.network.Host(managerHost).Kill()
				w.killed(managerHost)
				begun := time.Now()
				_, err = to.Write(content[block : size-block])
				w.must(err)
				if took := time.Since(begun); took > time.Minute {
					w.Errorf("writing %d MiB took %v without managers", size>>20, took)
				}
				w.network.Host(managerHost).Restart()
				w.restarted(managerHost)
				_, err = to.Write(content[size-block:])
				w.must(err)
				w.must(to.Close())
				ended := w.awaitEnd(out.ID(), 2*time.Minute)
				w.checkOutcome(s.deliveries[0], ended)
				if ended.State != sdk.DeliveryComplete {
					t.Errorf("the delivery is %s", standing(ended))
				}
			})
		})
	}
}
