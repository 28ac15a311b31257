package relay_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
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

// Agents connect to their parents while their children are on their way to them, and ask over that.
func TestParentsAreDialledEarly(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"])
	dials := &counter{}
	w.dialer = dials
	w.start("sa1", 64<<20)
	w.start("sa2", 64<<20)
	w.tree("sa1", "sender", "sa2")
	w.tree("sa2", "sa1", "r1")
	w.await("sa2 is connected", func() bool { return dials.opened.Load() == 1 })
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
	if opened := dials.opened.Load(); opened != 1 {
		t.Errorf("%d connections, want the one that was there", opened)
	}
}

// They do not keep a parent waiting when nobody comes, and connect again when somebody does.
func TestParentIsNotKeptWaiting(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	dials := &counter{}
	w.dialer = dials
	sa1 := w.start("sa1", 64<<20)
	w.start("sa2", 64<<20)
	w.tree("sa1", "sender", "sa2")
	w.tree("sa2", "sa1", "r1")
	w.await("it is given up", func() bool { return sa1.count(w, "probes") == 1 })
	if opened, refused := dials.opened.Load(), sa1.count(w, "refused_links"); opened != 1 || refused != 0 {
		t.Errorf("%d connections, %v refused", opened, refused)
	}
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
	if opened := dials.opened.Load(); opened != 2 {
		t.Errorf("%d connections, want one more", opened)
	}
}

// Children that have most of it already have it begin there, through agents that have connected to each other before:
// what they have is sent to nobody.
func TestContactsWaitForWhereChildrenAre(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	dials := &counter{}
	w.dialer = dials
	for _, name := range []string{"sa1", "sa2", "sa3"} {
		w.start(name, 64<<20)
	}
	w.tree("sa1", "sender", "sa2")
	w.tree("sa2", "sa1", "sa3")
	w.tree("sa3", "sa2", "r1")
	w.await("all are connected", func() bool { return dials.opened.Load() == 2 })
	r1 := newMember("r1")
	r1.got.Write(w.content[:900<<10])
	w.deliver("sa1", map[*member]string{r1: "sa3"})
	if received := w.agents["sa1"].count(w, "received_bytes"); received > 256<<10 {
		t.Errorf("%v bytes were sent again, of which 124 KiB were lacking", received)
	}
}
