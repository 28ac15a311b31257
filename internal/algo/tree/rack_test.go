package tree_test

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// "Clusters" within clusters: as long as nothing was measured, a rack is fed from its own zone. So each zone and
// each rack is entered once, whatever is sent, and also after deaths.
func TestRacksOfAZoneFeedEachOther(t *testing.T) {
	const zones, racks, computers = 3, 4, 5
	nodes := []tree.Node{member("sender", "zone-0/rack-0", "zone-0/rack-0/0")}
	for i := range zones * racks * computers {
		rack := fmt.Sprintf("zone-%d/rack-%d", i%zones, i/zones%racks)
		name := fmt.Sprintf("%s/%d", rack, i/zones/racks)
		nodes = append(nodes, agent(name, rack, 0), member("m-"+name, rack, name))
	}
	for _, load := range []tree.Load{{}, {Bytes: 100_000}, {Bytes: 10_000_000}, {Bytes: 1_000_000_000}} {
		built := build(t, "sender", nodes, tree.Bound{Load: load})
		wantEntered(t, built, zones, zones*racks)
		for _, lost := range []string{"zone-1/rack-2/0", "zone-2/rack-0/0", "zone-0/rack-3/4"} {
			without, err := built.Without(lost)
			if err != nil {
				t.Fatal(err)
			}
			wantEntered(t, without, zones, zones*racks)
		}
	}
}

// wantEntered checks how many links enter a zone, and how many a rack, from outside.
func wantEntered(t *testing.T, built *tree.Tree, zones, racks int) {
	t.Helper()
	between, over := 0, 0
	for _, name := range built.Names() {
		parent, fed := built.Parent(name)
		if !fed {
			continue
		}
		child, _ := built.Node(name)
		from, _ := built.Node(parent)
		if !tree.SameZone(from.Cluster, child.Cluster) {
			between++
		}
		if from.Cluster != child.Cluster {
			over++
		}
	}
	if between != zones-1 || over != racks-1 {
		t.Errorf("%d links lead into another zone, %d into another rack; want %d and %d:\n%v", between, over, zones-1, racks-1, built)
	}
}
