package relay_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// lineman dials for agents, and can break the connections that it dialled.
type lineman struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (l *lineman) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

func (l *lineman) dialled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// breakSome breaks all but some of the latest connections, again and again until ctx is done.
func (l *lineman) breakSome(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		for i, conn := range l.conns {
			if i%3 != 0 || i < len(l.conns)-4 {
				conn.Close()
			}
		}
		l.mu.Unlock()
	}
}

// Agents feed each other over several connections, and what they hand on is whole.
func TestStripesBetweenAgents(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 20<<20+5, spec)
			lines := &lineman{}
			w.stripes, w.dialer = parallel.Bounds{Least: 4, Most: 4}, lines
			w.start("sa1", 64<<20)
			w.start("sa2", 64<<20)
			w.tree("sa1", "sender", "sa2", "r1")
			w.tree("sa2", "sa1", "r2", "r3")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa1", newMember("r2"): "sa2", newMember("r3"): "sa2"})
			sent := func() float64 { return w.agents["sa1"].count(w, "sent_bytes") }
			w.await("what was sent is counted", func() bool { return sent() >= 2*float64(len(w.content)) }) // each stripe counts for itself
			if sent() != 2*float64(len(w.content)) {
				t.Errorf("SA1 sent %v bytes, want twice the object", sent())
			}
			if got := lines.dialled(); got != 4 && got != 5 { // one may be for the next delivery
				t.Errorf("%d connections, want 4, or 5 with that for the next delivery", got)
			}
		})
	}
}

// While a delivery runs, an agent says over how many connections it feeds its children, and how much its parent may still send, which is never
// more than its cache takes. Afterwards neither is left.
func TestStripesAndCreditAreShown(t *testing.T) {
	w := newWorld(t, 24<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"])
	w.stripes = parallel.Bounds{Least: 4, Most: 4}
	first, second := w.start("sa1", 64<<20), w.start("sa2", 2<<20)
	w.tree("sa1", "sender", "sa2")
	w.tree("sa2", "sa1", "r1")
	slow := newMember("r1")
	slow.pace = 4 * time.Millisecond
	var delivering sync.WaitGroup
	delivering.Go(func() { w.deliver("sa1", map[*member]string{slow: "sa2"}) })
	w.await("a link of four stripes, and one of one", func() bool { return first.StripeCount() == 4 && second.StripeCount() == 1 })
	w.await("there is credit", func() bool {
		if credit := second.Credit(); credit > second.Cache.Limit() {
			t.Errorf("parents may send %d bytes more, and the cache takes %d", credit, second.Cache.Limit())
		}
		return second.Credit() > 0
	})
	delivering.Wait()
	w.await("nothing is left", func() bool {
		return first.StripeCount()+second.StripeCount() == 0 && first.Credit()+second.Credit() == 0
	})
}

// Stripes break and come back, over caches that hold a small part of the object: what is sent again finds its place, though the room of what
// went before was given back.
func TestStripesBreakOverSmallCaches(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 24<<20+5, spec)
			lines := &lineman{}
			w.stripes, w.dialer = parallel.Bounds{Least: 4, Most: 4}, lines
			w.start("sa1", 2<<20)
			w.start("sa2", 1<<20)
			w.tree("sa1", "sender", "sa2")
			w.tree("sa2", "sa1", "r1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var breaking sync.WaitGroup
			breaking.Go(func() { lines.breakSome(ctx, 30*time.Millisecond) })
			slow := newMember("r1")
			slow.pace = time.Millisecond
			w.deliver("sa1", map[*member]string{slow: "sa2"})
			cancel()
			breaking.Wait()
			if got := lines.dialled(); got <= 4 {
				t.Errorf("%d connections: none was broken", got)
			}
		})
	}
}

// C14: a stripe joins only the link of the node that brings it, and only while there is a link.
func TestC14StripeWithoutLinkIsRefused(t *testing.T) {
	w := newWorld(t, 1<<20, &groupv1.DeliverySpec{})
	w.stripes = parallel.Bounds{Least: 1, Most: parallel.Most}
	w.start("sa1", 64<<20)
	w.tree("sa1", "sender", "r1", "r2")
	r1, r2 := identity.ID{Role: identity.Member, Name: "r1"}, identity.ID{Role: identity.Member, Name: "r2"}
	dial := func(as identity.ID, join bool) error {
		hello := w.hello(w.capability(as, identity.Receive))
		hello.Join, hello.Stripes = join, parallel.Most
		conn, _, err := link.Dial(t.Context(), &net.Dialer{}, w.agents["sa1"].address, w.identity(as), identity.ID{Role: identity.Agent, Name: "sa1"}, hello)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
		return err
	}
	wantRefused := func(err error, what string) {
		t.Helper()
		var refusal *wire.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != wire.Unknown {
			t.Errorf("%s: %v, want it refused", what, err)
		}
	}
	wantRefused(dial(r1, true), "a stripe before its link")
	if err := dial(r1, false); err != nil {
		t.Fatal(err)
	}
	wantRefused(dial(r2, true), "a stripe to another's link")
	w.await("the link takes stripes", func() bool { return dial(r1, true) == nil })
	for range 2 * parallel.Most {
		if err := dial(r1, true); err != nil {
			wantRefused(err, "a stripe too many")
			return
		}
	}
	t.Error("any number of stripes is taken")
}
