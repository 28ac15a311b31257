package relay_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// counter counts the connections that are opened.
type counter struct{ opened atomic.Int32 }

func (c *counter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.opened.Add(1)
	}
	return conn, err
}

// wantOneMore waits for the connection that is made for the next delivery: it is the second, and none was made for this delivery.
func (c *counter) wantOneMore(w *world) {
	w.Helper()
	w.await("there is another connection", func() bool { return c.opened.Load() >= 2 })
	time.Sleep(300 * time.Millisecond) // a third would follow
	if opened := c.opened.Load(); opened != 2 {
		w.Errorf("%d connections, want the one that was there and one for the next delivery", opened)
	}
}

// connectedChain returns a chain of agents when all have connected to their parents. The sender feeds the first, and the last feeds r1.
func connectedChain(t *testing.T, mode string, names ...string) (*world, *counter) {
	t.Helper()
	w, dials := newWorld(t, 1<<20, modes()[mode]), &counter{}
	w.dialer = dials
	for _, name := range names {
		w.start(name, 64<<20)
	}
	for i, name := range names {
		neighbours := append(append([]string{"sender"}, names...), "r1")
		w.tree(name, neighbours[i], neighbours[i+2])
	}
	w.await("all are connected", func() bool { return int(dials.opened.Load()) == len(names)-1 })
	return w, dials
}

// Agents connect to their parents while their children are still on their way to them, and ask over these connections. Then they connect for
// the next delivery.
func TestParentsAreDialledEarly(t *testing.T) {
	w, dials := connectedChain(t, "CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT", "sa1", "sa2")
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
	dials.wantOneMore(w)
}

// If no child comes for long, the connection is kept, for whichever delivery is next.
func TestEarlyConnectionIsKept(t *testing.T) {
	w, dials := connectedChain(t, "CONTROL_MODE_HOP-DATA_PLANE_TLS", "sa1", "sa2")
	time.Sleep(2 * time.Second) // nobody is waited for any more
	sa1 := w.agents["sa1"]
	if opened, refused, probes := dials.opened.Load(), sa1.count(w, "refused_links"), sa1.count(w, "probes"); opened != 1 || refused+probes != 0 {
		t.Errorf("%d connections, %v refused, %v given up", opened, refused, probes)
	}
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
	dials.wantOneMore(w)
}

// Children that already have most of an object have it begin there, through agents that have connected to each other before: what the children
// have is sent to nobody.
func TestContactsWaitForWhereChildrenAre(t *testing.T) {
	w, _ := connectedChain(t, "CONTROL_MODE_HOP-DATA_PLANE_TLS", "sa1", "sa2", "sa3")
	r1 := newMember("r1")
	r1.got.Write(w.content[:900<<10])
	w.deliver("sa1", map[*member]string{r1: "sa3"})
	if received := w.agents["sa1"].count(w, "received_bytes"); received > 256<<10 {
		t.Errorf("%v bytes were sent again, of which 124 KiB were lacking", received)
	}
}
