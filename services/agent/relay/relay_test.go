package relay_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

func TestMain(m *testing.M) {
	if arguments := os.Getenv(childrenVariable); arguments != "" {
		if err := beChildren(arguments); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEveryMemberGetsAll(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 9<<20+5, spec)
			w.start("sa1", 64<<20)
			w.start("sa2", 64<<20)
			w.tree("sa1", "sender", "sa2", "r1", "r2")
			w.tree("sa2", "sa1", "r3", "r4")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa1", newMember("r2"): "sa1", newMember("r3"): "sa2", newMember("r4"): "sa2"})
			if sent := w.agents["sa1"].count(w, "sent_bytes"); sent != 3*float64(len(w.content)) {
				t.Errorf("SA1 sent %v bytes, want three times the object", sent)
			}
		})
	}
}

// Nothing is lost of what no cache has room for, in either mode, and none holds more than its limit, however small: TestLimitHolds in
// the cache's package checks that at each change, this now and then.
func TestObjectLargerThanEveryCache(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 12<<20+5, spec)
			w.start("sa1", 2<<20)
			w.start("sa2", 1<<20)
			w.tree("sa1", "sender", "sa2", "r1")
			w.tree("sa2", "sa1", "r2")
			watched := map[string]func() uint64{"sa1": w.watchHeld("sa1"), "sa2": w.watchHeld("sa2")}
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa1", newMember("r2"): "sa2"})
			for name, most := range watched {
				if got, limit := most(), w.agents[name].Cache.Limit(); got > limit {
					t.Errorf("%s held %d bytes, its limit is %d", name, got, limit)
				}
			}
		})
	}
}

// What is promised cannot be taken back: a delivery whose bytes do not come, as of a slow stream, has not promised itself the room that others
// need.
func TestSlowDeliveryLeavesRoom(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 64<<20, spec)
			a := w.start("sa1", 32<<20)
			w.tree("sa1", "sender", "r1")
			waiting, end := context.WithCancel(t.Context())
			var pulling sync.WaitGroup
			pulling.Go(func() { _ = w.pull(waiting, newMember("r1"), func() string { return "sa1" }) })
			w.await("room is promised", func() bool { return a.Cache.Reserved() > 0 })
			if got := a.Cache.Reserved(); got > a.Cache.Limit()/4 {
				t.Errorf("%d bytes of %d are promised before one has come", got, a.Cache.Limit())
			}
			end()
			pulling.Wait()
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"}) // a fast delivery has the room that it needs
		})
	}
}

// watchHeld returns the most that an agent's cache has held, when asked.
func (w *world) watchHeld(name string) (most func() uint64) {
	stop, stopped := make(chan struct{}), make(chan uint64)
	go func() {
		var held uint64
		for {
			select {
			case <-stop:
				stopped <- held
				return
			case <-time.After(time.Millisecond):
				held = max(held, w.agents[name].Held())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-stopped
	}
}

// Detach: the others are not held up, and the slow one gets all in the end.
func TestSlowMemberIsDetached(t *testing.T) {
	spec := modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"]
	w := newWorld(t, 12<<20, spec)
	w.start("sa1", 2<<20)
	w.tree("sa1", "sender", "fast", "slow")
	fast, slow := newMember("fast"), newMember("slow")
	slow.pace = 8 * time.Millisecond // per 64 KiB
	w.deliver("sa1", map[*member]string{fast: "sa1", slow: "sa1"})
	if restarts := w.agents["sa1"].counts(w, "restarts"); restarts["discarded"] != 1 || restarts["elsewhere"] != 0 {
		t.Errorf("begun again %v times, want once, for what the cache has discarded", restarts)
	}
}

// A member that has a part already has the delivery begin from there: that does not count as a cache that is too small.
func TestWhoHasAPartIsNoCacheTooSmall(t *testing.T) {
	w := newWorld(t, 4<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"])
	w.start("sa1", 64<<20)
	w.tree("sa1", "sender", "r1")
	r1 := newMember("r1")
	r1.got.Write(w.content[:2<<20])
	w.deliver("sa1", map[*member]string{r1: "sa1"})
	if restarts := w.agents["sa1"].counts(w, "restarts"); restarts["discarded"] != 0 || restarts["elsewhere"] != 1 {
		t.Errorf("begun again %v times, want once, for a member that is elsewhere", restarts)
	}
}

// C11, C16: a neighbour without a capability for this delivery is refused, and learns nothing.
func TestC16CapabilityOfAnother(t *testing.T) {
	w := newWorld(t, 1000, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 1<<20)
	w.tree("sa1", "sender", "r1")
	r1, r2 := identity.ID{Role: identity.Member, Name: "r1"}, identity.ID{Role: identity.Member, Name: "r2"}
	r2Part := identity.ID{Role: identity.Member, Name: "r2.part"}
	own, other, absent := w.id, wire.DeliveryID{9}, wire.DeliveryID{8}
	w.id = other
	w.tree("sa1", "sender", "r2")
	w.id = own
	said := make(map[string]string) // to whom a capability for another delivery does not help: no more where there is that one
	for name, tt := range map[string]struct {
		as     identity.ID
		change func(*wire.Hello)
		reason wire.Reason
	}{
		"none":                     {r1, func(h *wire.Hello) { h.Capability = nil }, wire.Denied},
		"of another member":        {r2, func(*wire.Hello) {}, wire.Denied},
		"of another's part":        {r1, func(h *wire.Hello) { h.Capability = w.capability(r2Part, identity.Receive) }, wire.Denied},
		"for another delivery":     {r1, func(h *wire.Hello) { h.Delivery = other }, wire.Denied},
		"for one that is not here": {r1, func(h *wire.Hello) { h.Delivery = absent }, wire.Denied},
		"to receive, used to send": {r1, func(h *wire.Hello) { h.Offer = true }, wire.Denied},
		"tampered":                 {r1, func(h *wire.Hello) { h.Capability[len(h.Capability)-1] ^= 1 }, wire.Denied},
		"expired": {r1, func(h *wire.Hello) {
			h.Capability = w.capabilityOf(r1, identity.Receive, time.Now().Add(-2*identity.CapabilityLifetime))
		}, wire.Denied},
		"another data plane": {r1, func(h *wire.Hello) { h.Plaintext = true }, wire.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			hello := w.hello(w.capability(r1, identity.Receive))
			tt.change(&hello)
			_, _, err := link.Dial(t.Context(), &net.Dialer{}, w.agents["sa1"].address, w.identity(tt.as), identity.ID{Role: identity.Agent, Name: "sa1"}, hello)
			var refusal *wire.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != tt.reason {
				t.Errorf("%v, want it refused as %v", err, tt.reason)
			}
			said[name] = strings.ReplaceAll(err.Error(), hex.EncodeToString(hello.Delivery[:]), "ID")
		})
	}
	if here, not := said["for another delivery"], said["for one that is not here"]; here != not {
		t.Errorf("it shows whether there is a delivery: %q, and %q where there is none", here, not)
	}
	for _, session := range []identity.ID{r2, r2Part} {
		hello := w.hello(w.capability(session, identity.Receive))
		_, _, err := link.Dial(t.Context(), &net.Dialer{}, w.agents["sa1"].address, w.identity(r2), identity.ID{Role: identity.Agent, Name: "sa1"}, hello)
		var refusal *wire.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != wire.Stale {
			t.Errorf("%s, which is not in the tree: %v, want stale", session, err)
		}
	}
}

// The children of an agent that is gone go on from another, where they were.
func TestChildGoesOnFromAnotherParent(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 24<<20, spec)
			for _, name := range []string{"sa1", "sa2", "sa3"} {
				w.start(name, 64<<20)
			}
			w.tree("sa1", "sender", "sa2", "sa3")
			w.tree("sa2", "sa1", "r1")
			w.tree("sa3", "sa1", "r2")
			r1, r2 := newMember("r1"), newMember("r2")
			r1.pace, r2.pace = time.Millisecond, time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var mu sync.Mutex
			parent := "sa2"
			var running sync.WaitGroup
			sending, done := context.WithCancel(ctx)
			running.Go(func() { _ = w.send(sending, "sa1") })
			var pulling sync.WaitGroup
			pulling.Go(func() {
				_ = w.pull(ctx, r1, func() string {
					mu.Lock()
					defer mu.Unlock()
					return parent
				})
			})
			pulling.Go(func() { _ = w.pull(ctx, r2, func() string { return "sa3" }) })
			w.await("r1 has some", func() bool { return r1.has() > 4<<20 })
			mu.Lock()
			parent = "sa3"
			mu.Unlock()
			w.agents["sa2"].Assign(&groupv1.Assignments{Complete: true}) // it has nothing to do any more
			w.version = 2
			w.tree("sa1", "sender", "sa3")
			w.tree("sa3", "sa1", "r1", "r2")
			pulling.Wait()
			done()
			running.Wait()
			for _, m := range []*member{r1, r2} {
				if !bytes.Equal(m.got.Bytes(), w.content) {
					t.Errorf("%s has %d bytes, the right ones: %t", m.name, m.has(), bytes.Equal(m.got.Bytes(), w.content))
				}
			}
		})
	}
}

// A child that leaves the tree and is in it again a moment later goes on where it was: its link ends, and it comes with another. What it
// acknowledges meanwhile is no lie.
func TestChildLeavesAndIsBack(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 16<<20, spec)
			w.start("sa1", 64<<20)
			w.tree("sa1", "sender", "r1")
			r1 := newMember("r1")
			r1.pace = 2 * time.Millisecond
			var delivering sync.WaitGroup
			delivering.Go(func() { w.deliver("sa1", map[*member]string{r1: "sa1"}) })
			for round := range 3 {
				w.await("r1 has some more", func() bool { return r1.has() > (round+1)*3<<20 })
				w.version++
				w.tree("sa1", "sender")
				w.version++
				w.tree("sa1", "sender", "r1")
			}
			delivering.Wait()
			refused := w.agents["sa1"].counts(w, "refused_links") // a handshake that r1 gives up is no lie
			if lies := refused[wire.Protocol.String()]; lies != 0 {
				t.Errorf("%v links ended as if r1 had lied: %v", lies, refused)
			}
		})
	}
}

// newEvicting returns a world with an agent that gives up slow members, and a member that is slow.
func newEvicting(t *testing.T) (w *world, slow *member) {
	spec := modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"]
	spec.SlowMember = &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT, LagBytes: 4 << 20}
	w = newWorld(t, 32<<20, spec)
	w.start("sa1", 64<<20)
	w.tree("sa1", "sender", "slow")
	slow = newMember("slow")
	slow.pace = 20 * time.Millisecond
	return w, slow
}

func TestSlowMemberIsEvicted(t *testing.T) {
	w, slow := newEvicting(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sending sync.WaitGroup
	sending.Go(func() { _ = w.send(ctx, "sa1") })
	// What is queued for the member may hold up the farewell: then it hears that when it comes back.
	if err := w.pull(ctx, slow, func() string { return "sa1" }); err == nil || slow.isDone() {
		t.Errorf("%v, want it given up as slow", err)
	}
	cancel()
	sending.Wait()
}

// An order of the tree that makes a loop moves nothing and harms nothing: the next order counts.
func TestC14LoopDoesNoHarm(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 64<<20)
	w.start("sa2", 64<<20)
	w.tree("sa1", "sa2", "sa2", "r1")
	w.tree("sa2", "sa1", "sa1")
	r1 := newMember("r1")
	var pulling sync.WaitGroup
	pulling.Go(func() { _ = w.pull(t.Context(), r1, func() string { return "sa1" }) })
	w.await("r1 has asked", func() bool { return w.agents["sa1"].Load().Links > 0 })
	if r1.has() > 0 {
		t.Errorf("%d bytes came out of nowhere", r1.has())
	}
	w.version = 2
	w.tree("sa2", "sa1", "r2")
	w.tree("sa1", "sender", "sa2", "r1")
	w.deliver("sa1", map[*member]string{newMember("r2"): "sa2"})
	pulling.Wait()
	if !bytes.Equal(r1.got.Bytes(), w.content) {
		t.Errorf("r1 has %d bytes", r1.has())
	}
}

// An order for an earlier tree, from a manager that does not know yet that another leads, changes nothing.
func TestC14EarlierTreeIsNotFollowed(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 64<<20)
	w.version = 7
	w.tree("sa1", "sender", "r1")
	w.version = 6
	w.tree("sa1", "sender", "r2")
	r2 := identity.ID{Role: identity.Member, Name: "r2"}
	_, _, err := link.Dial(t.Context(), &net.Dialer{}, w.agents["sa1"].address, w.identity(r2), identity.ID{Role: identity.Agent, Name: "sa1"}, w.hello(w.capability(r2, identity.Receive)))
	var refusal *wire.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != wire.Stale {
		t.Errorf("%v, want the child of the earlier tree refused as stale", err)
	}
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"})
}

// Measuring a round trip is not an attack: it is counted apart from what is refused.
func TestMeasuringIsNotRefused(t *testing.T) {
	w := newWorld(t, 0, &groupv1.DeliverySpec{})
	a := w.start("sa1", 1<<20)
	contacts := link.NewContacts(&net.Dialer{}, w.identity(identity.ID{Role: identity.Member, Name: "m"}), link.AllKeep)
	measure := func(prove bool) error {
		if prove {
			_, err := contacts.Prove(t.Context(), a.address, identity.ID{Role: identity.Agent, Name: "sa1"})
			return err
		}
		_, err := link.RoundTrip(t.Context(), &net.Dialer{}, a.address)
		return err
	}
	for i := range 20 {
		if err := measure(i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
	contacts.Close()
	w.await("all are counted", func() bool { return a.count(w, "probes") == 20 })
	if refused := a.count(w, "refused_links"); refused != 0 {
		t.Errorf("%v were refused", refused)
	}
}
