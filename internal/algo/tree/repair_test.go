package tree_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// A death moves only the children of the dead node, and the rules still hold. Without fails only if
// a limit leaves no room for that.
func TestWithoutMovesOnlyChildren(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 25)
		before := network.build(t)
		for len(network.nodes) > 1 {
			dead := rapid.IntRange(1, len(network.nodes)-1).Draw(t, "dead")
			name, drawn := network.nodes[dead].Name, before.String()
			children := before.Children(name)
			slices.Sort(children)
			after, err := before.Without(name)
			var full *tree.FanOutError
			if errors.As(err, &full) && network.bound.FanOut > 0 {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := moved(before, after); !subset(got, children) {
				t.Fatalf("%s died, which fed %v; %v moved", name, children, got)
			}
			if before.String() != drawn {
				t.Fatal("the tree before changed")
			}
			network.nodes = slices.Delete(network.nodes, dead, dead+1)
			wantRules(t, network, after)
			before = after
		}
	})
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(name string) bool { return !slices.Contains(all, name) })
}

// A late join moves nobody. The rules still hold, unless the newcomer is the first agent of a cluster.
func TestWithMovesNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 20)
		before := network.build(t)
		for range 5 {
			kind := rapid.SampledFrom([]tree.Kind{tree.Member, tree.Agent}).Draw(t, "kind")
			node := drawNode(t, "late"+string(rune('a'+before.Len())), kind)
			leads := node.Kind == tree.Agent && !slices.ContainsFunc(network.agents(), func(a tree.Node) bool {
				return a.Cluster == node.Cluster && a.Cluster != ""
			})
			after, err := before.With(node)
			var full *tree.FanOutError
			if errors.As(err, &full) && network.bound.FanOut > 0 {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := moved(before, after); len(got) != 0 {
				t.Fatalf("%s joined and %v moved", node.Name, got)
			}
			if err := after.Validate(); err != nil {
				t.Fatalf("%v\n%v", err, after)
			}
			if leads {
				return
			}
			network.nodes = append(network.nodes, node)
			wantRules(t, network, after)
			before = after
		}
	})
}

// After deaths and joins in any order the tree is still valid.
func TestChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 15)
		now := network.build(t)
		t.Repeat(map[string]func(*rapid.T){
			"die": func(t *rapid.T) {
				if after, err := now.Without(rapid.SampledFrom(now.Names()).Draw(t, "dead")); err == nil {
					now = after
				}
			},
			"join": func(t *rapid.T) {
				kind := rapid.SampledFrom([]tree.Kind{tree.Member, tree.Agent}).Draw(t, "kind")
				if after, err := now.With(drawNode(t, rapid.StringMatching("j[0-9]{4}").Draw(t, "name"), kind)); err == nil {
					now = after
				}
			},
			"": func(t *rapid.T) {
				if err := now.Validate(); err != nil {
					t.Fatalf("%v\n%v", err, now)
				}
			},
		})
	})
}

// The last agent's members are fed by the sender itself.
func TestDeathOfTheLastAgent(t *testing.T) {
	nodes := []tree.Node{member("s", "x", ""), member("m", "x", "a"), agent("a", "x", 0)}
	after, err := build(t, "s", nodes, tree.Bound{}).Without("a")
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Path("m"); !slices.Equal(got, []string{"s", "m"}) {
		t.Errorf("m is fed over %v", got)
	}
}

// New measurements change latencies and move nobody.
func TestMeasured(t *testing.T) {
	nodes, rtt := networks(2, 10*time.Millisecond)
	before := build(t, "ma1", nodes, tree.Bound{RTT: rtt, MaxLatency: 50 * time.Millisecond})
	_, rtt = networks(2, 100*time.Millisecond)
	after := before.Measured(rtt)
	if got := moved(before, after); len(got) != 0 {
		t.Errorf("%v moved", got)
	}
	if got, _ := after.Latency("mc1"); got.Measured != 120*time.Millisecond || got.Unmeasured != 0 {
		t.Errorf("mc1 is at %v, want 120ms", got)
	}
	var late *tree.LatencyError
	if err := after.CheckLatency(); !errors.As(err, &late) || late.Path[len(late.Path)-1] != "mc1" {
		t.Errorf("the check says %v, want the path to mc1", err)
	}
}
