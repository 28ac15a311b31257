package tree_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// "The host […] is moved to a lower level in the multicast tree. […] this scheme forces a
// host […] to move to the bottom of its cluster" (002 §3.1.2).
func TestLowerMovesToTheBottomOfAChain(t *testing.T) {
	nodes, rtt := zones(8, 1)
	for i := range nodes {
		nodes[i].Uplink = min(nodes[i].Uplink, gigabit)
	}
	built := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt, Load: tree.Load{Bytes: 1_000_000_000}})
	lowered, err := built.Lower("node-0001", gigabit/10)
	if err != nil {
		t.Fatal(err)
	}
	wantGolden(t, "chain-lowered", lowered)
}

// After a node moves one level lower, the rules still hold. Only that node and those it fed get new
// parents, and it keeps the members beside it.
func TestLowerKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 25)
		before := network.build(t)
		agents := network.agents()
		if len(agents) == 0 {
			return
		}
		name := rapid.SampledFrom(agents).Draw(t, "slow").Name
		children := before.Children(name)
		rate := rapid.Uint64Range(0, 3).Draw(t, "rate")
		after, err := before.Lower(name, rate)
		var full *tree.FanOutError
		if err != nil {
			if errors.As(err, &full) && network.bound.FanOut == 0 {
				t.Fatal(err)
			}
			return
		}
		wantRules(t, network, after)
		// Any other node moves only to be fed by the stronger node.
		if got := moved(before, after); !subset(got, slices.Concat(children, after.Children(name), []string{name})) {
			t.Fatalf("%s was lowered, which fed %v; %v moved\n%v\n%v", name, children, got, before, after)
		}
		if was, is := len(before.Path(name)), len(after.Path(name)); is <= was {
			t.Errorf("%s was at level %d and is at %d\n%v\n%v", name, was, is, before, after)
		}
	})
}

// An agent that feeds nobody cannot be lowered: nobody would gain.
func TestLowerNeedsASuccessor(t *testing.T) {
	nodes, rtt := zones(2, 1)
	built := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt})
	for _, name := range []string{"node-0000", "node-0001", "m-node-0000", "x"} {
		if lowered, err := built.Lower(name, 1); err == nil {
			t.Errorf("%s was lowered:\n%v", name, lowered)
		}
	}
}
