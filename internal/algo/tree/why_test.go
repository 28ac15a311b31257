package tree_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

func TestWhy(t *testing.T) {
	large, rtt := zones(8, 2)
	figure5, trunk := networks(1, 100*time.Millisecond)
	chain := build(t, "m-node-0000", large, tree.Bound{RTT: rtt, Load: tree.Load{Bytes: 1_000_000_000}})
	routed := build(t, "ma1", figure5, tree.Bound{RTT: trunk, FanOut: 3})
	moved, err := build(t, "s", []tree.Node{
		member("s", "", ""), agent("a", "x", 0), agent("b", "y", 0), member("m", "x", ""), member("n", "", "a"),
	}, tree.Bound{}).Elsewhere("m")
	if err != nil {
		t.Fatal(err)
	}
	if moved, err = moved.Elsewhere("n"); err != nil {
		t.Fatal(err)
	}
	alone := build(t, "s", []tree.Node{member("s", "", ""), member("m", "", "")}, tree.Bound{})
	central := build(t, "s", zone(0), tree.Bound{FanOut: 4, RTT: apartInAZone()})
	strong := build(t, "s", zone(2*gigabit), tree.Bound{FanOut: 4, RTT: apartInAZone()})
	equal := build(t, "s", zone(0), tree.Bound{FanOut: 4})
	joined, err := strong.With(agent("m5", "y", 3*gigabit))
	if err != nil {
		t.Fatal(err)
	}
	lowered, err := equal.Lower("m1", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	nodes, times := onTheWay()
	over := build(t, "s", nodes, tree.Bound{FanOut: 3, RTT: times})
	near, err := over.With(member("mt", "t", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tree       *tree.Tree
		name, want string
	}{
		{chain, "m-node-0000", "the sender: one link carries all"},
		{chain, "node-0000", "beside the sender; it carries 1250.0 MB/s"},
		{chain, "node-0002", "fed inside zone-a, where a chain suits so much: every uplink carries one copy; at most 200µs from there and back; it carries 1250.0 MB/s"},
		{chain, "node-0001", "the one that enters zone-b, one of its strongest agents, where a chain suits so much: every uplink carries one copy; at most 1.2ms from there and back; it carries 1250.0 MB/s"},
		{chain, "m-node-0007", "beside its agent"},
		{chain, "x", ""},
		{routed, "SA1", "the nearest to the sender, or the strongest: none is of its cluster; at most 20ms from there and back"},
		{routed, "SA2", "the one that enters r2, where each feeds at most 3; at most 200ms from there and back"},
		{routed, "mc1", "the nearest agent with room: none is of its cluster; at most 20ms from there and back"},
		{central, "m2", "the one that enters y, one of its strongest agents, of which none is more central, where each feeds at most 4"},
		{central.Light(), "m2", "the one that enters y, one of its strongest agents, of which none is more central, where each feeds at most 4"},
		{central, "m1", "fed inside y, where each feeds at most 4; at most 10ms from there and back"},
		{strong, "m2", "the one that enters y, its strongest agent, where each feeds at most 4; it carries 250.0 MB/s"},
		{joined, "m2", "the one that enters y, where each feeds at most 4; it carries 250.0 MB/s"},
		{equal, "m1", "the one that enters y, one of its strongest agents, where each feeds at most 4"},
		{lowered, "m1", "fed inside y by a stronger agent, where each feeds at most 4; it carries 1.0 MB/s"},
		{over, "t", "the one that enters t, on the way to 2 agents elsewhere, for which one copy comes to it, where each feeds at most 3; at most 100ms from there and back"},
		{near, "t", "the one that enters t, where each feeds at most 3; at most 100ms from there and back"},
		{moved, "m", "away from the agents of its cluster, x: it was moved, or these have just come"},
		{moved, "n", "away from the agent beside it: it was moved, or that one has just come"},
		{alone, "s", "the sender: without an agent it feeds everybody"},
		{alone, "m", "fed by the sender: there is no agent"},
	} {
		if got := c.tree.Why(c.name); got != c.want {
			t.Errorf("%s: %q\nwant %q", c.name, got, c.want)
		}
	}
}

// onTheWay returns the nodes of a delivery from cluster x to b and c. An agent of cluster t, which has no members, is far from x and near to both.
func onTheWay() ([]tree.Node, tree.RTTs) {
	between := agent("t", "t", 0)
	between.Transit = true
	nodes := []tree.Node{
		member("s", "x", ""), agent("a", "x", 0), between,
		agent("b", "b", 0), member("mb", "b", ""), agent("c", "c", 0), member("mc", "c", ""),
	}
	return nodes, tree.RTTs{Clusters: map[tree.Pair]time.Duration{
		{A: "x", B: "t"}: 100 * ms, {A: "x", B: "b"}: 110 * ms, {A: "x", B: "c"}: 110 * ms,
		{A: "t", B: "b"}: 10 * ms, {A: "t", B: "c"}: 10 * ms,
	}}
}
