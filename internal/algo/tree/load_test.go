package tree_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// A large object is copied once by every uplink, a small one reaches all over few hops, and
// a slow sender's is copied as often as the uplinks carry.
func TestFanOutSuitsTheLoad(t *testing.T) {
	const megabyte = 1_000_000
	for _, c := range []struct {
		name      string
		computers int
		load      tree.Load
		depth     int // of the members
	}{
		{"1 GB to 8", 8, tree.Load{Bytes: 1000 * megabyte}, 9},
		{"1 GB to 500", 500, tree.Load{Bytes: 1000 * megabyte}, 501},
		{"10 MB to 64", 64, tree.Load{Bytes: 10 * megabyte}, 8},
		{"100 KB to 500", 500, tree.Load{Bytes: megabyte / 10}, 5},
		{"1 GB at a tenth of an uplink to 64", 64, tree.Load{Bytes: 1000 * megabyte, Rate: gigabit / 10}, 4},
		{"a stream to 64", 64, tree.Load{}, 6},
		{"a stream at half of an uplink to 64", 64, tree.Load{Rate: gigabit / 2}, 8},
		{"a stream at all of an uplink to 8", 8, tree.Load{Rate: gigabit}, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes, rtt := zones(c.computers, 1)
			for i := range nodes {
				nodes[i].Uplink = min(nodes[i].Uplink, gigabit)
			}
			if got := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt, Load: c.load}).Depth(); got != c.depth {
				t.Errorf("the tree is %d hops deep, want %d", got, c.depth)
			}
		})
	}
}

// A chain that would end at a weak agent feeds the next cluster from its strong end.
func TestChains(t *testing.T) {
	load := tree.Load{Bytes: 1_000_000_000}
	nodes, rtt := zones(8, 2)
	wantGolden(t, "chain-weak", build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt, Load: load}))
	for i := range nodes {
		nodes[i].Uplink = min(nodes[i].Uplink, gigabit)
	}
	wantGolden(t, "chain-equal", build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt, Load: load}))
}
