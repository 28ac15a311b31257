package tree_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// lateNetwork is an agent and a member at each of three places in a row, ten milliseconds between two.
func lateNetwork() (nodes []tree.Node, rtt tree.RTTs) {
	const apart = 20 * time.Millisecond
	rtt.Nodes = make(map[tree.Pair]time.Duration)
	names := []string{"a", "b", "c", "d"}
	nodes = []tree.Node{member("s", "", "a")}
	for i, name := range names {
		nodes = append(nodes, tree.Node{Name: name, Kind: tree.Agent, Cluster: "x"}, member("m"+name, "x", name))
		for j, other := range names[:i] {
			rtt.Nodes[tree.Pair{A: other, B: name}] = apart * time.Duration(i-j)
		}
	}
	return nodes, rtt
}

// A tree that "must keep" a bound and was changed since names the nodes for which it does not, and nobody is moved lower if that would
// break it: late is better than never, but not better than slow.
func TestWhoIsLateIsSaidToBe(t *testing.T) {
	nodes, rtt := lateNetwork()
	built := build(t, "s", nodes, tree.Bound{RTT: rtt, MaxLatency: 35 * time.Millisecond, Load: tree.Load{Bytes: 1_000_000_000}})
	if why := built.Why("md"); strings.Contains(why, "bound") {
		t.Errorf("within its bound: %s", why)
	}
	var late *tree.LatencyError
	for _, slow := range []string{"b", "c"} {
		if lowered, err := built.Lower(slow, 1); !errors.As(err, &late) {
			t.Errorf("%s is lowered: %v\n%v", slow, err, lowered)
		}
	}
	measured := tree.RTTs{Nodes: map[tree.Pair]time.Duration{}, Version: 1}
	for pair, is := range rtt.Nodes {
		measured.Nodes[pair] = 2 * is
	}
	after := built.Measured(measured)
	if !errors.As(after.CheckLatency(), &late) {
		t.Fatalf("the bound holds:\n%v", after)
	}
	if why, want := after.Why("md"), "60ms from the sender, where the bound is 35ms"; !strings.Contains(why, want) {
		t.Errorf("%q, want %q in it", why, want)
	}
	if why := after.Why("ma"); strings.Contains(why, "bound") {
		t.Errorf("who is not late: %s", why)
	}
}
