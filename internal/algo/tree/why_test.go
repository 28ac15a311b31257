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
	for _, c := range []struct {
		tree       *tree.Tree
		name, want string
	}{
		{chain, "m-node-0000", "the sender: one link carries all"},
		{chain, "node-0000", "beside the sender; it carries 1250.0 MB/s"},
		{chain, "node-0002", "fed inside zone-a, where a chain suits so much: every uplink carries one copy; at most 200µs from there and back; it carries 1250.0 MB/s"},
		{chain, "node-0001", "the one that enters zone-b, where a chain suits so much: every uplink carries one copy; at most 1.2ms from there and back; it carries 1250.0 MB/s"},
		{chain, "m-node-0007", "beside its agent"},
		{chain, "x", ""},
		{routed, "SA1", "the nearest to the sender, or the strongest: none is of its cluster; at most 20ms from there and back"},
		{routed, "SA2", "the one that enters r2, where each feeds at most 3; at most 200ms from there and back"},
		{routed, "mc1", "the nearest agent with room: none is of its cluster; at most 20ms from there and back"},
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
