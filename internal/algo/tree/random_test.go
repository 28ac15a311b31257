package tree_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// network is a random sender, its nodes and a bound.
type network struct {
	sender string
	nodes  []tree.Node
	bound  tree.Bound
}

// drawNetwork draws up to most nodes; a third of them are agents.
func drawNetwork(t *rapid.T, most int) network {
	nodes := []tree.Node{drawNode(t, "s", tree.Member)}
	for i := range rapid.IntRange(0, most-1).Draw(t, "others") {
		kind := tree.Member
		if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
			kind = tree.Agent
		}
		nodes = append(nodes, drawNode(t, fmt.Sprintf("n%02d", i), kind))
	}
	bound := tree.Bound{FanOut: rapid.IntRange(0, 5).Draw(t, "fan-out"), RTT: drawRTTs(t, nodes)}
	return network{"s", nodes, bound}
}

func drawNode(t *rapid.T, name string, kind tree.Kind) tree.Node {
	return tree.Node{
		Name: name, Kind: kind,
		Cluster: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "cluster"),
		Uplink:  rapid.Uint64Range(0, 3).Draw(t, "uplink"),
		Agent:   rapid.SampledFrom([]string{"", "n00", "n01", "n02", "n03"}).Draw(t, "prefers"),
	}
}

func drawRTTs(t *rapid.T, nodes []tree.Node) tree.RTTs {
	name := rapid.Custom(func(t *rapid.T) string { return rapid.SampledFrom(nodes).Draw(t, "node").Name })
	label := rapid.SampledFrom([]string{"x", "y", "z"})
	rtt := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(0, 200).Draw(t, "milliseconds")) * time.Millisecond
	})
	pair := func(of *rapid.Generator[string]) *rapid.Generator[tree.Pair] {
		return rapid.Custom(func(t *rapid.T) tree.Pair { return tree.Pair{A: of.Draw(t, "a"), B: of.Draw(t, "b")} })
	}
	return tree.RTTs{
		Nodes:    rapid.MapOfN(pair(name), rtt, 0, 10).Draw(t, "nodes"),
		Clusters: rapid.MapOfN(pair(label), rtt, 0, 6).Draw(t, "clusters"),
	}
}

// build builds the network's tree, and skips the network if the given limit leaves no room.
func (n network) build(t *rapid.T) *tree.Tree {
	built, err := tree.Build(n.sender, n.nodes, n.bound)
	var full *tree.FanOutError
	if errors.As(err, &full) && n.bound.FanOut > 0 {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func (n network) agents() (agents []tree.Node) {
	for _, node := range n.nodes {
		if node.Kind == tree.Agent {
			agents = append(agents, node)
		}
	}
	return agents
}

// Build keeps what it promises, for random input.
func TestBuildKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 30)
		wantRules(t, network, network.build(t))
	})
}

// wantRules checks a tree as a user sees it: by names alone.
func wantRules(t *rapid.T, n network, built *tree.Tree) {
	t.Helper()
	if err := built.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(slices.Values(built.Names())), names(n.nodes); !slices.Equal(got, want) {
		t.Fatalf("the tree has %v, want %v", got, want)
	}
	for _, problem := range n.broken(built) {
		t.Errorf("%s\n%v", problem, built)
	}
}

// broken lists the rules that a tree breaks, except for the fan-out limit: Validate checks that.
func (n network) broken(built *tree.Tree) (problems []string) {
	agents, led := n.agents(), map[string]bool{}
	for _, agent := range agents {
		led[agent.Cluster] = agent.Cluster != ""
	}
	if fed := built.Children(n.sender); len(agents) > 0 && len(fed) != 1 {
		problems = append(problems, fmt.Sprintf("the sender feeds %v", fed))
	}
	for cluster, times := range built.Entered() {
		home, _ := built.Node(n.sender)
		ingress, _ := built.Node(first(built.Children(n.sender)))
		if want := 1 - one(home.Cluster == cluster && ingress.Cluster == cluster); led[cluster] && times != want {
			problems = append(problems, fmt.Sprintf("cluster %s is entered %d times, want %d", cluster, times, want))
		}
	}
	for _, node := range n.nodes {
		up, fed := built.Parent(node.Name)
		parent, _ := built.Node(up)
		if node.Name != n.sender && (!fed || len(agents) > 0 && node.Kind == tree.Member && parent.Kind != tree.Agent) {
			problems = append(problems, fmt.Sprintf("%s is fed by %q", node.Name, up))
		}
	}
	return problems
}

func one(fact bool) int {
	if fact {
		return 1
	}
	return 0
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func names(nodes []tree.Node) []string {
	var all []string
	for _, node := range nodes {
		all = append(all, node.Name)
	}
	slices.Sort(all)
	return all
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 20)
		want := network.build(t).String()
		network.nodes = rapid.Permutation(network.nodes).Draw(t, "order")
		if got := network.build(t).String(); got != want {
			t.Errorf("another order gives another tree:\n%s\nwant\n%s", got, want)
		}
	})
}

// "Hosts having the least capacities are located at the lower levels of the delivery tree" (002
// §2): without a latency bound no agent is fed by a weaker agent of its own cluster. The ingress is
// the exception, as it is where the sender is.
func TestWeakestLowest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 30)
		built := network.build(t)
		for _, node := range network.agents() {
			up, _ := built.Parent(node.Name)
			parent, _ := built.Node(up)
			ingress := up == first(built.Children("s"))
			if parent.Kind == tree.Agent && !ingress && parent.Cluster != "" && parent.Cluster == node.Cluster && strength(parent) < strength(node) {
				t.Errorf("%s feeds %s, which is stronger:\n%v", up, node.Name, built)
			}
		}
	})
}

// strength returns an agent's uplink, or that of ordinary Ethernet where it is unknown.
func strength(node tree.Node) uint64 { return cmp.Or(node.Uplink, gigabit) }

// parents returns who feeds whom.
func parents(built *tree.Tree) map[string]string {
	fed := map[string]string{}
	for _, name := range built.Names() {
		fed[name], _ = built.Parent(name)
	}
	return fed
}

// moved returns the nodes of before that have another parent in after, leaving out a node that has gone.
func moved(before, after *tree.Tree) []string {
	was, is := parents(before), parents(after)
	maps.DeleteFunc(was, func(name, parent string) bool {
		now, still := is[name]
		return !still || now == parent
	})
	return slices.Sorted(maps.Keys(was))
}
