package tree_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// An agent rises above another, of its cluster or not, and that one rises above it again: then nobody has moved, and
// the rules still hold.
func TestRiseCanBeUndone(t *testing.T) {
	rises, abroad := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 15)
		before := network.build(t)
		for _, agent := range network.agents() {
			down, _ := before.Parent(agent.Name)
			above, _ := before.Parent(down)
			after, err := before.Rise(agent.Name)
			if err != nil {
				continue
			}
			rises++
			if other, _ := before.Node(down); other.Cluster != agent.Cluster {
				abroad++
			}
			if err := after.Validate(); err != nil {
				t.Fatal(err)
			}
			feeds, _ := after.Parent(down)
			fed, _ := after.Parent(agent.Name)
			if feeds != agent.Name || fed != above {
				t.Fatalf("%s is fed by %s, want %s, and feeds not %s\n%v\n%v", agent.Name, fed, above, down, before, after)
			}
			if got := moved(before, after); !subset(got, []string{agent.Name, down}) {
				t.Fatalf("%v moved, want %s and %s alone", got, agent.Name, down)
			}
			back, err := after.Rise(down)
			if err != nil {
				t.Fatal(err)
			}
			if got := moved(before, back); len(got) > 0 {
				t.Fatalf("%v are elsewhere when it was undone\n%v\n%v", got, before, back)
			}
		}
	})
	if rises == abroad || abroad == 0 {
		t.Errorf("%d rose, %d of them above another cluster's", rises, abroad)
	}
}

// Nobody rises above the sender, between the sender and the agent of its own cluster, or where paths are bounded.
func TestWhoMayNotRise(t *testing.T) {
	nodes := []tree.Node{member("s", "x", ""), agent("a", "x", 9), agent("b", "y", 8), member("m", "y", "b")}
	for _, bound := range []tree.Bound{{}, {MaxLatency: 1 << 40}} {
		built := build(t, "s", nodes, bound)
		for _, name := range []string{"s", "a", "b", "m", "nobody"} {
			if risen, err := built.Rise(name); err == nil {
				t.Errorf("%s rose:\n%v", name, risen)
			}
		}
	}
}
