package sim

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// versions is a scenario in which objects with the same name are sent.
func versions() scenario {
	return scenario{
		agents:    []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "y", 16 << 20}},
		receivers: []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}, {name: "r3", node: "a2"}},
		policy:    sdk.Policy{ControlMode: sdk.Hop},
	}
}

// version makes an object of some size, and sends it as "conf".
func (w *world) version(name string, size int) *sdk.Outgoing {
	w.Helper()
	out, err := w.sending.Send(w.Context(), w.write(parcel{name: name, size: size}), sdk.SendOptions{Name: "conf"})
	w.must(err)
	return out
}

// wantVersion checks which version a member has.
func (w *world) wantVersion(member, name string) {
	w.Helper()
	if err := same(filepath.Join(w.dir, senderHost, name), filepath.Join(w.into(member), "conf")); err != nil {
		w.Errorf("%s does not have %s: %v", member, name, err)
	}
}

// A latecomer gets the latest of several objects with one name, however long each of them takes.
func TestLateMemberGetsTheLatestOfAName(t *testing.T) {
	inWorld(t, versions(), func(*world) {}, func(w *world) {
		first := w.version("v1", 3<<20).ID()
		w.awaitEnd(first, endTime)
		last := w.version("v2", 10_000).ID()
		w.awaitEnd(last, endTime)
		late := place{name: "r4", node: "a1"}
		w.network.Host(late.name)
		w.startReceiver(late)
		w.await("the late one has it", func() bool {
			delivery, err := w.operator.Delivery(w.Context(), last)
			return err == nil && len(delivery.Receipts) == 4
		})
		time.Sleep(5 * time.Second) // the earlier version would have come by then, too
		for _, member := range []string{"r1", "r2", "r3", "r4"} {
			w.wantVersion(member, "v2")
		}
		earlier, err := w.operator.Delivery(w.Context(), first)
		w.must(err)
		if len(earlier.Receipts) != 3 {
			t.Errorf("the earlier one went to the late member, too: %s", standing(earlier))
		}
		w.programs["r4"].stop()
		w.isOver(w.programs["r4"])
	})
}

// A latecomer gets an object that was sent twice from the first delivery: of the second, which
// nobody needed, agents have nothing.
func TestLateMemberGetsWhatWasSentTwice(t *testing.T) {
	inWorld(t, versions(), func(*world) {}, func(w *world) {
		w.awaitEnd(w.version("v1", 3<<20).ID(), endTime)
		again, err := w.sending.Send(w.Context(), filepath.Join(w.dir, senderHost, "v1"), sdk.SendOptions{Name: "conf"})
		w.must(err)
		w.awaitEnd(again.ID(), endTime)
		late := place{name: "r4", node: "a1"}
		w.network.Host(late.name)
		w.startReceiver(late)
		w.await("the late one has it", func() bool {
			return same(filepath.Join(w.dir, senderHost, "v1"), filepath.Join(w.into("r4"), "conf")) == nil
		})
		second, err := w.operator.Delivery(w.Context(), again.ID())
		w.must(err)
		if len(second.Receipts) != 3 {
			t.Errorf("the late member waits for the second one, too: %s", standing(second))
		}
		w.programs["r4"].stop()
		w.isOver(w.programs["r4"])
	})
}

// An agent that was begun anew has as many bytes of an empty object as one that keeps it. It is not taken for one: a latecomer
// gets the object from another, or is not told of it.
func TestLateMemberGetsAnEmptyObjectFromWhoKeepsIt(t *testing.T) {
	inWorld(t, versions(), func(*world) {}, func(w *world) {
		empty := w.version("v1", 0).ID()
		w.awaitEnd(empty, endTime)
		for _, agent := range []string{"a1", "a2"} {
			w.killed(agent)
			time.Sleep(10 * time.Second)
			w.restarted(agent)
			time.Sleep(10 * time.Second)
		}
		late := place{name: "r4", node: "a1"}
		w.network.Host(late.name)
		w.startReceiver(late)
		time.Sleep(40 * time.Second)
		delivery, err := w.operator.Delivery(w.Context(), empty)
		w.must(err)
		for _, receipt := range delivery.Receipts {
			if receipt.State != sdk.ReceiptComplete {
				t.Errorf("the empty object: %s", standing(delivery))
			}
		}
		w.programs["r4"].stop()
		w.isOver(w.programs["r4"])
	})
}

// If two objects with one name are sent at once, all members end up with the one that was sent
// last, even if the other takes longer; of the other they say that it came too late.
func TestTwoOfANameAtOnce(t *testing.T) {
	inWorld(t, versions(), func(*world) {}, func(w *world) {
		first := w.version("v1", 3<<20)
		second := w.version("v2", 10_000)
		var ended [2]sdk.Delivery
		var ending sync.WaitGroup
		for i, out := range []*sdk.Outgoing{first, second} {
			ending.Go(func() { ended[i] = w.awaitEnd(out.ID(), endTime) })
		}
		ending.Wait()
		if ended[1].State != sdk.DeliveryComplete {
			t.Errorf("the later one: %s", standing(ended[1]))
		}
		for _, receipt := range ended[0].Receipts {
			if receipt.State != sdk.ReceiptFailed || receipt.Reason != "superseded" {
				t.Errorf("%s says of the earlier one: %s %s", receipt.Member, receipt.State, receipt.Reason)
			}
		}
		for _, r := range w.receivers {
			w.wantVersion(r.name, "v2")
		}
	})
}
