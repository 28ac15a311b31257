package tree_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// A change of a large tree costs little beside building it, and building it needs no more memory than its contents do.
// docs/benchmarks.md says how long both take.
func TestChangesAreSmallBesideBuilding(t *testing.T) {
	nodes, rtt := zones(50_000, 500) // and as many members
	bound := tree.Bound{RTT: rtt}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	built := build(t, "m-node-0000", nodes, bound)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(nodes))*2500 {
		t.Errorf("building a tree of %d nodes takes %d bytes", len(nodes), took)
	}
	building := quickest(t, 3, func() (*tree.Tree, error) { return tree.Build("m-node-0000", nodes, bound) })
	at := newCast(t, built)
	for _, change := range []struct {
		what string
		make func() (*tree.Tree, error)
	}{
		{"the death of an agent", func() (*tree.Tree, error) { return built.Without(at.inner) }},
		{"the death of a gateway", func() (*tree.Tree, error) { return built.Without(at.gateway) }},
		{"the death of the ingress", func() (*tree.Tree, error) { return built.Without(at.ingress) }},
		{"a move", func() (*tree.Tree, error) { return built.Lower(at.inner, 1) }},
		{"the move of a gateway", func() (*tree.Tree, error) { return built.Lower(at.gateway, 1) }},
		{"a join", func() (*tree.Tree, error) { return at.without.With(at.back) }},
	} {
		if took := quickest(t, 20, change.make); took*300 > building {
			t.Errorf("%s takes %v, building the tree %v", change.what, took, building)
		}
	}
}

// quickest returns the shortest time that something took in several tries.
func quickest(t *testing.T, tries int, try func() (*tree.Tree, error)) (least time.Duration) {
	t.Helper()
	for range tries {
		begun := time.Now()
		if _, err := try(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); least == 0 || took < least {
			least = took
		}
	}
	return least
}
