package manager_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
)

// watched is a watch of a delivery, read by the test.
type watched struct {
	groupv1.DeliveryService_WatchDeliveryClient
}

func (p *party) watch(t *testing.T, request *groupv1.WatchDeliveryRequest) watched {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	stream, err := p.deliveries.WatchDelivery(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return watched{stream}
}

// next reads messages until one is as it should be.
func (w watched) next(t *testing.T, what string, is func(*groupv1.WatchDeliveryResponse) bool) *groupv1.WatchDeliveryResponse {
	t.Helper()
	for {
		message, err := w.Recv()
		if err != nil {
			t.Fatalf("until %s: %v", what, err)
		}
		if message.GetDelivery() != nil && is(message) {
			return message
		}
	}
}

// The tree of a delivery goes to clients that ask for it, whenever it is another one. In between, they are told what its nodes have.
func TestTreeIsToldWhenItChanges(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.m2.has(t, id, "fed by its node's agent", fedBy("a2"))
	with := p.watch(t, &groupv1.WatchDeliveryRequest{Delivery: id, Tree: true})
	without := p.watch(t, &groupv1.WatchDeliveryRequest{Delivery: id})
	first := with.next(t, "it begins", func(*groupv1.WatchDeliveryResponse) bool { return true })
	place := -1
	for i, node := range first.GetDelivery().GetTree() {
		if node.GetId() == "member/m2" && node.GetWhy() != "" {
			place = i
		}
	}
	if place < 0 || first.GetTreeUnchanged() || len(first.GetDelivery().GetTreeChanges()) == 0 {
		t.Fatalf("it begins with %v", first)
	}
	p.m2.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 1000})
	with.next(t, "m2 has more", func(m *groupv1.WatchDeliveryResponse) bool {
		if !m.GetTreeUnchanged() || len(m.GetDelivery().GetTree())+len(m.GetDelivery().GetTreeChanges()) > 0 {
			t.Fatalf("the tree is the same, and told again: %v", m)
		}
		return len(m.GetNodes()) == 1 && int(m.GetNodes()[0].GetPlace()) == place && m.GetNodes()[0].GetBytes() == 1000
	})
	p.a2.link.Close()
	with.next(t, "a2 is out", func(m *groupv1.WatchDeliveryResponse) bool {
		return !m.GetTreeUnchanged() && len(m.GetDelivery().GetTree()) == len(first.GetDelivery().GetTree())-1
	})
	without.next(t, "a2 is out", func(m *groupv1.WatchDeliveryResponse) bool {
		if m.GetTreeUnchanged() || len(m.GetDelivery().GetTree())+len(m.GetDelivery().GetTreeChanges())+len(m.GetNodes()) > 0 {
			t.Fatalf("nobody asked for the tree: %v", m)
		}
		return m.GetDelivery().GetTreeVersion() > first.GetDelivery().GetTreeVersion()
	})
}

// A client that watches with the SDK has the whole tree each time, as it is then.
func TestWatchedTreeIsWhole(t *testing.T) {
	m, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.m2.has(t, id, "fed by its node's agent", fedBy("a2"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	reported, gone := false, false
	for shown, err := range m.Client(t).WatchDeliveryTree(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		nodes := make(map[string]sdk.TreeNode)
		for _, node := range shown.Tree {
			nodes[node.ID] = node
		}
		switch {
		case len(shown.TreeChanges) == 0 || nodes["member/m2"].Why == "":
			t.Fatalf("something is missing of %+v", shown)
		case !reported:
			p.m2.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 1000})
			reported = true
		case !gone && nodes["member/m2"].Bytes == 1000:
			p.a2.link.Close()
			gone = true
		case gone && nodes["agent/a2"].ID == "" && nodes["member/m2"].Bytes == 1000:
			return
		}
	}
}

// What is sent again and again is small beside the tree.
func TestWatchIsSmall(t *testing.T) {
	const agents, members = 5, 45
	_, p := startParty(t)
	for i := range agents {
		p.agent(t, fmt.Sprintf("a%d", i), fmt.Sprintf("node-%d", i), "zone")
	}
	sender := p.join(t, "s", "node-0", send)
	var receivers []*node
	for i := range members {
		receivers = append(receivers, p.join(t, fmt.Sprintf("m%03d", i), fmt.Sprintf("node-%d", i%agents), receiveToo))
	}
	id := p.create(t, sender, file(megabyte))
	with := p.watch(t, &groupv1.WatchDeliveryRequest{Delivery: id, Tree: true})
	without := p.watch(t, &groupv1.WatchDeliveryRequest{Delivery: id})
	for _, n := range receivers {
		n.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 1000})
	}
	counted := func(w watched) (sizes []int) {
		for len(sizes) < 3 {
			m := w.next(t, "all have more", func(m *groupv1.WatchDeliveryResponse) bool { return true })
			if sizes = append(sizes, proto.Size(m)); len(sizes) < 3 {
				receivers[0].report(&groupv1.DeliveryReport{Delivery: id, Bytes: uint64(1000 + len(sizes))})
			}
		}
		return sizes
	}
	whole, asked, bare := proto.Size(p.get(t, id)), counted(with), counted(without)
	t.Logf("%d nodes: the whole %d bytes; watched with its tree %v, without %v", agents+members+1, whole, asked, bare)
	if tree := whole - bare[2]; asked[2]-bare[2] > tree/4 || bare[0] > whole/2 {
		t.Errorf("the whole is %d bytes; watched with its tree %v, without %v", whole, asked, bare)
	}
}

// What links carry goes to clients that ask for the tree, and to all when the delivery has ended: with reasons, it is most of what there is to
// tell.
func TestLinksAreToldAtTheEnd(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.m2.has(t, id, "fed by its node's agent", fedBy("a2"))
	with := p.watch(t, &groupv1.WatchDeliveryRequest{Delivery: id, Tree: true})
	without := p.watch(t, &groupv1.WatchDeliveryRequest{Delivery: id})
	p.passOn(id, megabyte)
	hasLinks := func(m *groupv1.WatchDeliveryResponse) bool {
		return len(m.GetDelivery().GetMeasurements().GetLinks()) > 0
	}
	with.next(t, "links carry something", hasLinks)
	if got := p.get(t, id).GetMeasurements().GetLinks(); len(got) == 0 {
		t.Error("who asks once is not told of links")
	}
	p.seal(t, p.sender, id, megabyte)
	p.mustComplete(t, p.m1, id, megabyte)
	p.mustComplete(t, p.m2, id, megabyte)
	without.next(t, "it has ended", func(m *groupv1.WatchDeliveryResponse) bool {
		running := m.GetDelivery().GetState() == groupv1.DeliveryState_DELIVERY_STATE_RUNNING
		if running == hasLinks(m) {
			t.Errorf("while it runs %v it is told with links: %v", running, hasLinks(m))
		}
		return !running
	})
}
