package tree_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

var networksToSearch = flag.Int("networks", 100, "random networks that are searched for better trees")

// optimum returns the smallest time to the worst member over all trees that keep the rules, and
// whether there is such a tree. This is Build's objective, all else being equal.
func (n network) optimum() (best time.Duration, found bool) {
	n.each(func(_ map[string]string, worst time.Duration) {
		if !found || worst < best {
			best, found = worst, true
		}
	})
	return best, found
}

// each visits all trees that keep the rules, with their time to the worst member: it tries every parent for every node.
func (n network) each(visit func(parent map[string]string, worst time.Duration)) {
	parent := map[string]string{}
	var try func(at int)
	try = func(at int) {
		if at == len(n.nodes) {
			if worst, keeps := n.judge(parent); keeps {
				visit(parent, worst)
			}
			return
		}
		child := n.nodes[at]
		for _, up := range n.nodes {
			if up.Name != child.Name && (up.Name == n.sender || up.Kind == tree.Agent) {
				parent[child.Name] = up.Name
				try(at + 1)
			}
		}
	}
	try(1)
}

// judge returns the time to the worst member, and whether the arrangement is a tree that keeps the rules.
func (n network) judge(parent map[string]string) (worst time.Duration, keeps bool) {
	nodes, children, led, entered := map[string]tree.Node{}, map[string]int{}, map[string]bool{}, map[string]int{}
	for _, node := range n.nodes {
		nodes[node.Name] = node
		if node.Kind == tree.Agent && node.Cluster != "" {
			led[node.Cluster] = true
		}
	}
	agents := len(n.agents())
	for child, up := range parent {
		node, of := nodes[child], nodes[up]
		children[up]++
		if of.Kind == tree.Agent && children[up] > n.bound.FanOut || up == n.sender && agents > 0 && node.Kind == tree.Member {
			return 0, false
		}
		if up == n.sender && agents > 0 && (children[up] > 1 || led[nodes[n.sender].Cluster] && nodes[n.sender].Cluster != node.Cluster) {
			return 0, false
		}
		inside := node.Cluster == of.Cluster && of.Kind == tree.Agent
		if led[node.Cluster] && !inside && (node.Kind == tree.Member || entered[node.Cluster] > 0) {
			return 0, false
		}
		entered[node.Cluster] += one(!inside)
	}
	return n.farthest(parent, nodes)
}

// farthest returns the cost of the longest path to a member, unless there is a loop.
func (n network) farthest(parent map[string]string, nodes map[string]tree.Node) (worst time.Duration, isTree bool) {
	for _, node := range n.nodes {
		cost := time.Duration(0)
		hops := 0
		for at := node.Name; at != n.sender; at = parent[at] {
			cost += n.hop(nodes[at], nodes[parent[at]])
			if hops++; hops > len(n.nodes) {
				return 0, false
			}
		}
		if node.Kind == tree.Member {
			worst = max(worst, cost)
		}
	}
	return worst, true
}

// hop returns what a hop costs, as documented: half of the RTT, or a constant if that was not measured.
func (n network) hop(a, b tree.Node) time.Duration {
	for _, between := range []struct {
		times map[tree.Pair]time.Duration
		a, b  string
	}{{n.bound.RTT.Nodes, a.Name, b.Name}, {n.bound.RTT.Clusters, a.Cluster, b.Cluster}} {
		one, first := between.times[tree.Pair{A: between.a, B: between.b}]
		two, second := between.times[tree.Pair{A: between.b, B: between.a}]
		if first || second {
			return max(one, two) / 2
		}
	}
	if a.Cluster != "" && a.Cluster == b.Cluster || a.Agent == b.Name || b.Agent == a.Name {
		return 500 * time.Microsecond
	}
	return 50 * time.Millisecond
}

// random returns a network of up to 8 nodes with a fan-out limit. If measured is set, all RTTs are
// known: they are distances in a plane of 200 ms.
func random(source *rand.Rand, measured bool) network {
	n := network{sender: "n0", bound: tree.Bound{FanOut: 2 + source.IntN(3), RTT: tree.RTTs{Nodes: map[tree.Pair]time.Duration{}}}}
	var x, y []float64
	for i := range 3 + source.IntN(6) {
		node := tree.Node{Name: fmt.Sprint("n", i), Cluster: []string{"", "x", "y"}[source.IntN(3)], Uplink: source.Uint64N(3)}
		if i > 0 && source.IntN(2) == 0 {
			node.Kind = tree.Agent
		}
		n.nodes, x, y = append(n.nodes, node), append(x, source.Float64()), append(y, source.Float64())
		for j := range i {
			if measured {
				n.bound.RTT.Nodes[tree.Pair{A: node.Name, B: fmt.Sprint("n", j)}] = distance(x[i]-x[j], y[i]-y[j])
			}
		}
	}
	return n
}

// gap compares Build with the optimum.
type gap struct {
	networks, optimal, missed int
	sum, worst                float64 // of Build's time divided by the optimum's
}

func (g gap) String() string {
	return fmt.Sprintf("%d networks: optimal %.3f, mean ratio %.3f, worst %.2f, trees missed %d",
		g.networks, float64(g.optimal)/float64(g.networks-g.missed), g.sum/float64(g.networks-g.missed), g.worst, g.missed)
}

// search builds random networks; relax derives the latency bound from the optimum.
func search(t *testing.T, measured bool, relax func(optimum time.Duration) time.Duration) (g gap) {
	const seed = 1
	source := rand.New(rand.NewPCG(seed, 0))
	for g.networks < *networksToSearch {
		n := random(source, measured)
		optimum, possible := n.optimum()
		n.bound.MaxLatency = relax(optimum)
		built, err := tree.Build(n.sender, n.nodes, n.bound)
		var full *tree.FanOutError
		if errors.As(err, &full) == possible {
			t.Fatalf("Build says %v, and a tree is possible: %v\n%+v", err, possible, n)
		}
		if !possible || optimum == 0 {
			continue
		}
		g.networks++
		if err != nil {
			g.missed++
			continue
		}
		g.note(n, built, optimum)
	}
	return g
}

func (g *gap) note(n network, built *tree.Tree, optimum time.Duration) {
	nodes := map[string]tree.Node{}
	for _, node := range n.nodes {
		nodes[node.Name] = node
	}
	got, _ := n.farthest(parents(built), nodes)
	ratio := float64(got) / float64(optimum)
	g.sum, g.worst = g.sum+ratio, max(g.worst, ratio)
	g.optimal += one(got == optimum)
}

// Build is compared with the best of all trees: where nothing was measured, so that the depth
// counts; where all was; and where the latency bound is tight or allows a quarter more than the
// optimum. A tree within the fan-out limit is found whenever there is one.
func TestGapToTheOptimum(t *testing.T) {
	free := func(time.Duration) time.Duration { return 0 }
	for _, c := range []struct {
		name     string
		measured bool
		relax    func(time.Duration) time.Duration
		mean     float64 // at most
		missed   float64 // of the networks, at most
	}{
		{"nothing measured", false, free, 1.05, 0},
		{"all measured", true, free, 1.15, 0},
		{"bound 1.25 of the optimum", true, func(o time.Duration) time.Duration { return o * 5 / 4 }, 1.05, 0.1},
		{"bound is the optimum", true, func(o time.Duration) time.Duration { return o }, 1, 0.2},
	} {
		g := search(t, c.measured, c.relax)
		t.Logf("%s: %v", c.name, g)
		if mean := g.sum / float64(g.networks-g.missed); mean > c.mean {
			t.Errorf("%s: the mean ratio is %.3f, want at most %.3f", c.name, mean, c.mean)
		}
		if missed := float64(g.missed) / float64(g.networks); missed > c.missed {
			t.Errorf("%s: %.3f of the trees were missed, want at most %.3f", c.name, missed, c.missed)
		}
	}
}

// distance is the RTT between two nodes in a plane of 200 ms.
func distance(x, y float64) time.Duration {
	return time.Duration(math.Hypot(x, y) * float64(200*time.Millisecond))
}
