package tree_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

const ms = time.Millisecond

// between are round trips between nodes.
func between(times map[tree.Pair]time.Duration) tree.RTTs { return tree.RTTs{Nodes: times} }

// wantNearer checks below which parent a node would move; below none if that is empty.
func wantNearer(t *testing.T, of *tree.Tree, node tree.Node, want string) (after *tree.Tree) {
	t.Helper()
	after, gain, found := of.Nearer(node)
	if found != (want != "") || gain.To != want {
		t.Fatalf("%s would move to %q (%+v), want %q\n%v", node.Name, gain.To, gain, want, of)
	}
	if found {
		if parent, _ := after.Parent(node.Name); parent != want {
			t.Fatalf("%s is fed by %s, want %s", node.Name, parent, want)
		}
	}
	return after
}

// "Perform the bulk of packet redistribution within host clusters" (002 §3.1.2): a member of a cluster
// that had no agent is fed inside it as soon as there is one, and by the agent beside it as soon as there
// is that.
func TestNearerIsInsideThenBeside(t *testing.T) {
	nodes := []tree.Node{member("s", "x", ""), agent("a", "x", 0), member("m", "y", "own")}
	now := build(t, "s", nodes, tree.Bound{})
	wantNearer(t, now, nodes[2], "")
	now = join(t, now, agent("b", "y", 0))
	now = wantNearer(t, now, nodes[2], "b")
	wantNearer(t, now, nodes[2], "")
	now = join(t, now, agent("own", "y", 0))
	now = wantNearer(t, now, nodes[2], "own")
	wantNearer(t, now, nodes[2], "")
}

func join(t *testing.T, now *tree.Tree, node tree.Node) *tree.Tree {
	t.Helper()
	with, err := now.With(node)
	if err != nil {
		t.Fatal(err)
	}
	return with
}

// Later measurements move a member whose parent turns out to be far. They do not if the gain is
// less than half or small, or if it was not measured.
func TestNearerByWhatIsMeasured(t *testing.T) {
	nodes := []tree.Node{member("s", "", ""), agent("a", "x", 2), agent("b", "y", 1), member("m", "", "")}
	for name, c := range map[string]struct {
		toA, toB time.Duration
		want     string
	}{
		"clearly":         {40 * ms, 1 * ms, "b"},
		"not by half":     {40 * ms, 21 * ms, ""},
		"by a little":     {2 * ms, ms / 2, ""},
		"it is farther":   {1 * ms, 40 * ms, ""},
		"it is not known": {0, 1 * ms, ""},
	} {
		t.Run(name, func(t *testing.T) {
			first := map[tree.Pair]time.Duration{{A: "a", B: "s"}: 1 * ms, {A: "a", B: "b"}: 40 * ms, {A: "a", B: "m"}: 1 * ms}
			now := build(t, "s", nodes, tree.Bound{RTT: between(first)})
			if parent, _ := now.Parent("m"); parent != "a" {
				t.Fatalf("m is fed by %s at first", parent)
			}
			times := map[tree.Pair]time.Duration{{A: "a", B: "s"}: 1 * ms, {A: "a", B: "b"}: 40 * ms, {A: "b", B: "m"}: c.toB}
			if c.toA > 0 {
				times[tree.Pair{A: "a", B: "m"}] = c.toA
			}
			wantNearer(t, now.Measured(between(times)), nodes[3], c.want)
		})
	}
}

// A gateway moves, with all below it, to where its path is clearly shorter.
func TestNearerMovesWholeClusters(t *testing.T) {
	nodes := []tree.Node{
		member("s", "x", ""), agent("a", "x", 3), agent("b", "y", 2), agent("c", "z", 1), agent("c2", "z", 1), member("m", "z", "c2"),
		member("n", "y", ""),
	}
	far := map[tree.Pair]time.Duration{{A: "x", B: "y"}: 10 * ms, {A: "x", B: "z"}: 80 * ms, {A: "y", B: "z"}: 10 * ms, {A: "z", B: "z"}: 0}
	now := build(t, "s", nodes, tree.Bound{RTT: tree.RTTs{Clusters: far}})
	if parent, _ := now.Parent("c"); parent != "b" {
		t.Fatalf("c is fed by %s at first\n%v", parent, now)
	}
	far = map[tree.Pair]time.Duration{{A: "x", B: "y"}: 10 * ms, {A: "x", B: "z"}: 4 * ms, {A: "y", B: "z"}: 10 * ms, {A: "z", B: "z"}: 0}
	after := wantNearer(t, now.Measured(tree.RTTs{Clusters: far}), nodes[3], "a")
	if got := after.Path("m"); !slices.Equal(got, []string{"s", "a", "c", "c2", "m"}) {
		t.Errorf("m is fed over %v", got)
	}
}

// "Within a specified delay constraint" (002 §3): a nearer parent does not count if the path over it is too long.
func TestNearerKeepsTheBound(t *testing.T) {
	nodes := []tree.Node{member("s", "", ""), agent("a", "x", 2), agent("b", "y", 1), member("m", "", "")}
	times := func(toM time.Duration) tree.RTTs {
		return between(map[tree.Pair]time.Duration{
			{A: "a", B: "s"}: 2 * ms, {A: "a", B: "b"}: 44 * ms, {A: "a", B: "m"}: toM, {A: "b", B: "m"}: 2 * ms,
		})
	}
	for limit, want := range map[time.Duration]string{24 * ms: "b", 22 * ms: ""} {
		built := build(t, "s", nodes, tree.Bound{MaxLatency: limit, RTT: times(1 * ms)})
		wantNearer(t, built.Measured(times(40*ms)), nodes[3], want)
	}
}

// Whoever moves, the rules still hold; nobody else gets another parent, and no agent feeds more than suits it.
func TestNearerKeepsTheRules(t *testing.T) {
	moves, entries := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 12)
		before, joined := network.build(t), false
		for _, name := range []string{"n00", "n01", "late"}[:rapid.IntRange(0, 3).Draw(t, "late")] {
			late := drawNode(t, name, tree.Agent)
			if with, err := before.With(late); err == nil {
				before, joined, network.nodes = with, true, append(network.nodes, late)
			}
		}
		before = before.Measured(between(drawAllTimes(t, network.nodes)))
		drawn := before.String()
		for _, node := range network.nodes {
			after, gain, found := before.Nearer(node)
			if !found {
				continue
			}
			moves++
			if err := after.Validate(); err != nil {
				t.Fatal(err)
			}
			if !joined { // else those of its cluster have not moved yet
				left := network
				left.nodes = slices.DeleteFunc(slices.Clone(network.nodes), func(node tree.Node) bool {
					_, stays := after.Node(node.Name)
					return !stays && len(before.Children(node.Name)) == 1
				})
				wantRules(t, left, after)
			}
			move := []string{node.Name}
			if node.Name == before.Sender() {
				entries++
				move = []string{gain.From, gain.To}
			}
			if got := moved(before, after); slices.ContainsFunc(got, func(name string) bool { return !slices.Contains(move, name) }) {
				t.Fatalf("%s was to move to %s; %v moved", node.Name, gain.To, got)
			}
			if !gain.Inside && 2*gain.Is > gain.Was {
				t.Fatalf("%+v is no gain", gain)
			}
			for times := 0; found; times++ { // where an agent is left out there is room for the next
				if after, _, found = after.Nearer(node); times > 5 {
					t.Fatalf("%s moves for ever\n%v", node.Name, after)
				}
			}
		}
		if before.String() != drawn {
			t.Fatal("the tree before changed")
		}
	})
	if t.Logf("%d moves, %d of them of who enters the tree", moves, entries); moves == entries || entries == 0 {
		t.Error("nobody ever moved, or nobody else ever entered the tree")
	}
}

// The sender feeds an agent beside it, or a nearer one, when there is one: that agent feeds the former one.
func TestNearerFirstAgent(t *testing.T) {
	nodes := []tree.Node{member("s", "", "own"), agent("a", "x", 2), agent("b", "y", 1), member("m", "x", ""), member("n", "y", "")}
	toA := func(toB time.Duration) tree.RTTs {
		return between(map[tree.Pair]time.Duration{
			{A: "a", B: "s"}: 40 * ms, {A: "b", B: "s"}: toB, {A: "a", B: "b"}: 40 * ms, {A: "own", B: "s"}: 0, {A: "a", B: "own"}: 42 * ms,
		})
	}
	now := build(t, "s", nodes, tree.Bound{RTT: toA(60 * ms)})
	if got := now.Path("n"); !slices.Equal(got, []string{"s", "a", "b", "n"}) {
		t.Fatalf("n is fed over %v at first", got)
	}
	for toB, want := range map[time.Duration]string{20 * ms: "", 4 * ms: "b", ms: "b"} {
		after, gain, found := now.Measured(toA(toB)).Nearer(nodes[0])
		if gain.To != want {
			t.Errorf("%v to b: the sender would feed %q (%+v), want %q", toB, gain.To, gain, want)
		}
		if found && !slices.Equal(after.Path("m"), []string{"s", "b", "a", "m"}) {
			t.Errorf("m is fed over %v", after.Path("m"))
		}
	}
	limited := build(t, "s", nodes, tree.Bound{RTT: toA(60 * ms), MaxLatency: time.Second})
	if _, gain, found := limited.Measured(toA(4 * ms)).Nearer(nodes[0]); found {
		t.Errorf("%+v, though paths are bounded and a's is longer", gain)
	}
	after, gain, found := join(t, now, agent("own", "z", 0)).Nearer(nodes[0])
	if !found || gain.To != "own" || !gain.Inside || !slices.Equal(after.Path("n"), []string{"s", "own", "a", "b", "n"}) {
		t.Fatalf("%+v, and n is fed over %v", gain, after.Path("n"))
	}
	if _, gain, found := after.Nearer(nodes[0]); found {
		t.Errorf("and then: %+v", gain)
	}
}

func drawAllTimes(t *rapid.T, nodes []tree.Node) map[tree.Pair]time.Duration {
	times := map[tree.Pair]time.Duration{}
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			times[tree.Pair{A: a.Name, B: b.Name}] = time.Duration(rapid.IntRange(0, 100).Draw(t, "time")) * ms
		}
	}
	return times
}
