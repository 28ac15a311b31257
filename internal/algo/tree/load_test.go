package tree_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// A large object goes over every uplink once, a small one reaches all over few hops, and a slow
// sender's is copied as often as the uplinks allow.
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

// What suits the load is what an ordinary uplink carries: a larger one feeds more, a smaller one fewer.
func TestFanOutSuitsTheUplink(t *testing.T) {
	chain, stream := tree.Load{Bytes: 1_000_000_000}, tree.Load{}
	for _, c := range []struct {
		name           string
		load           tree.Load
		first, others  uint64 // uplinks, where half of the agents have a gigabit
		feeds, feedAny int    // children of the first agent, and the most that any other agent has
	}{
		{"a chain of equals", chain, gigabit, gigabit, 1, 1},
		{"ten times the uplink of a chain's others", chain, 10 * gigabit, gigabit, 10, 1},
		{"an absurd uplink", chain, math.MaxUint64, gigabit, 16, 1},
		{"a stream over equals", stream, gigabit, gigabit, 3, 3},
		{"a stream over smaller ones", stream, gigabit, gigabit / 2, 3, 3},
		{"a stream from twice the uplink", stream, 2 * gigabit, gigabit, 6, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := []tree.Node{member("s", "x", ""), agent("first", "x", c.first)}
			for i := range 40 {
				uplink := uint64(gigabit)
				if i%2 == 1 {
					uplink = c.others
				}
				nodes = append(nodes, agent(fmt.Sprintf("other-%02d", i), "x", uplink))
			}
			built := build(t, "s", nodes, tree.Bound{Load: c.load})
			feedAny := 0
			for _, node := range nodes[2:] {
				fed := len(built.Children(node.Name))
				if suits := c.feedAny * int(node.Uplink) / gigabit; fed > max(suits, 1) {
					t.Errorf("%s of %d B/s feeds %d, and %d suit it", node.Name, node.Uplink, fed, suits)
				}
				feedAny = max(feedAny, fed)
			}
			if feeds := len(built.Children("first")); feeds != c.feeds || feedAny != c.feedAny {
				t.Errorf("the first feeds %d and another up to %d, want %d and %d\n%v", feeds, feedAny, c.feeds, c.feedAny, built)
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

// As few agents as let the last member be done soonest: an agent that feeds another one sends a copy more for that, and so two members
// are not worth a second agent.
func TestSpread(t *testing.T) {
	const gigabit = 125_000_000
	large := tree.Load{Bytes: 1 << 30}
	for _, tt := range []struct {
		what                 string
		load                 tree.Load
		members, least, most int
		want                 int
	}{
		{"two members", large, 2, 1, 9, 1},
		{"three: two copies and two instead of three", large, 3, 1, 9, 2},
		{"four: with three agents none feeds more than two", large, 4, 1, 9, 3},
		{"sixteen", large, 16, 1, 99, 15},
		{"sixteen, and there are four", large, 16, 1, 4, 4},
		{"those that take part anyway are enough", large, 4, 5, 9, 5},
		{"nobody is there yet", large, 1, 0, 9, 1},
		{"a small object is over before a hop is", tree.Load{Bytes: 10_000}, 16, 1, 9, 1},
		{"a slow sender: several copies cost nothing", tree.Load{Bytes: 1 << 30, Rate: 10e6}, 12, 1, 9, 1},
		{"a slow sender, and more copies than fit", tree.Load{Bytes: 1 << 30, Rate: 10e6}, 16, 1, 9, 2},
		{"of a stream nothing is known", tree.Load{}, 4, 1, 9, 2},
		{"a slow stream", tree.Load{Rate: 1e6}, 16, 1, 9, 1},
	} {
		if got := tt.load.Spread(tt.members, tt.least, tt.most, gigabit); got != tt.want {
			t.Errorf("%s: %d agents, want %d", tt.what, got, tt.want)
		}
	}
}
