package tree_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// "The use of multiple dispatchers localizes restructuring to each cluster" (002 §3.1.2): what
// happens inside a cluster concerns nobody of another.
func TestChangesStayInTheirCluster(t *testing.T) {
	nodes, rtt := zones(1000, 10)
	built := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt})
	inner := newCast(t, built).inner
	of, _ := built.Node(inner)
	without, err := built.Without(inner)
	if err != nil {
		t.Fatal(err)
	}
	wantInside(t, built, without, of.Cluster)
	with, err := without.With(of)
	if err != nil {
		t.Fatal(err)
	}
	wantInside(t, without, with, of.Cluster)
	lowered, err := built.Lower(inner, 1)
	if err != nil {
		t.Fatal(err)
	}
	wantInside(t, built, lowered, of.Cluster)
}

// wantInside checks that some nodes have other neighbours than before, and that all of them are
// of one cluster.
func wantInside(t *testing.T, before, after *tree.Tree, cluster string) {
	t.Helper()
	differ := after.Differing(before)
	if len(differ) == 0 {
		t.Error("nothing is different")
	}
	for _, name := range differ {
		if node, _ := after.Node(name); node.Cluster != cluster {
			t.Errorf("%s of %s has other neighbours, after a change in %s", name, node.Cluster, cluster)
		}
	}
}
