package tree_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// apartInAZone returns the round trips between four agents on a line, m1 to m4: the ends are far from each other.
func apartInAZone() tree.RTTs {
	times := map[tree.Pair]time.Duration{}
	for i, a := range []string{"m1", "m2", "m3", "m4"} {
		for j, b := range []string{"m1", "m2", "m3", "m4"} {
			if i != j { // both orders, as both sides measure
				times[tree.Pair{A: a, B: b}] = time.Duration(max(i-j, j-i)) * 10 * ms
			}
		}
	}
	return tree.RTTs{Nodes: times}
}

func zone(m2 uint64) []tree.Node {
	return []tree.Node{
		member("s", "x", ""), agent("a", "x", 0),
		agent("m1", "y", 0), agent("m2", "y", m2), agent("m3", "y", 0), agent("m4", "y", 0),
		member("r1", "y", "m1"), member("r2", "y", "m2"), member("r3", "y", "m3"), member("r4", "y", "m4"),
	}
}

// Of agents of equal strength the most central enters a cluster (m1 would be first by name). When
// it dies, the most central of those left takes its place.
func TestGatewayIsCentral(t *testing.T) {
	now := build(t, "s", zone(0), tree.Bound{FanOut: 4, RTT: apartInAZone()})
	wantParent(t, now, "m2", "a")
	after, err := now.Without("m2")
	if err != nil {
		t.Fatal(err)
	}
	wantParent(t, after, "m3", "a")
}

// Capacity goes before nearness: a central agent with a weak uplink stays below.
func TestGatewayIsStrongBeforeItIsCentral(t *testing.T) {
	now := build(t, "s", zone(1), tree.Bound{FanOut: 4, RTT: apartInAZone()})
	wantParent(t, now, "m3", "a")
}

func wantParent(t *testing.T, of *tree.Tree, node, want string) {
	t.Helper()
	if parent, _ := of.Parent(node); parent != want {
		t.Errorf("%s is fed by %s, want %s\n%v", node, parent, want, of)
	}
}
