package tree_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

func TestWrongInput(t *testing.T) {
	s, m, a := member("s", "", ""), member("m", "", ""), agent("a", "", 0)
	negative := tree.RTTs{Nodes: map[tree.Pair]time.Duration{{A: "s", B: "m"}: -1, {A: "s", B: "a"}: -1}}
	for _, c := range []struct {
		sender string
		nodes  []tree.Node
		bound  tree.Bound
		want   string
	}{
		{"x", []tree.Node{s, m}, tree.Bound{}, `the sender "x" is not among the nodes`},
		{"", nil, tree.Bound{}, `the sender "" is not among the nodes`},
		{"a", []tree.Node{s, m, a}, tree.Bound{}, `the sender "a" is not a member`},
		{"s", []tree.Node{s, m, m}, tree.Bound{}, `two nodes are named "m"`},
		{"s", []tree.Node{s, {}}, tree.Bound{}, "a node without name"},
		{"s", []tree.Node{s}, tree.Bound{FanOut: -1}, "fan-out limit -1 is negative"},
		{"s", []tree.Node{s}, tree.Bound{MaxLatency: -time.Second}, "latency limit -1s is negative"},
		{"s", []tree.Node{s}, tree.Bound{RTT: negative}, `RTT between "s" and "a" is negative`},
	} {
		if _, err := tree.Build(c.sender, c.nodes, c.bound); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, want %q", err, c.want)
		}
	}
}

// A limit that is given is kept or refused; one that is not given is raised as little as needed.
func TestTooFewAgents(t *testing.T) {
	nodes := []tree.Node{member("s", "x", ""), agent("a", "x", 0), agent("b", "y", 0), agent("c", "y", 0)}
	for _, name := range []string{"1", "2", "3", "4", "5", "6"} {
		nodes = append(nodes, member(name, "x", ""))
	}
	var full *tree.FanOutError
	_, err := tree.Build("s", nodes, tree.Bound{FanOut: 5})
	if !errors.As(err, &full) || *full != (tree.FanOutError{Cluster: "x", Limit: 5, Places: 5, Nodes: 6}) {
		t.Errorf("the error is %v, want cluster x with 6 nodes and 5 places", err)
	}
	_, err = tree.Build("s", nodes, tree.Bound{FanOut: 6})
	if !errors.As(err, &full) || full.Nodes != 7 {
		t.Errorf("the error is %v, want no room for the other cluster", err)
	}
	if got := build(t, "s", nodes, tree.Bound{}).Children("a"); len(got) != 7 {
		t.Errorf("a feeds %v, want its members and the other cluster", got)
	}
}

// "A specified delay constraint" (002 §3) is kept where that is possible; elsewhere the path that breaks it is named.
func TestLatencyBound(t *testing.T) {
	nodes, rtt := networks(2, 100*time.Millisecond)
	bound := tree.Bound{RTT: rtt, MaxLatency: 120 * time.Millisecond}
	build(t, "ma1", nodes, bound)
	bound.MaxLatency--
	_, err := tree.Build("ma1", nodes, bound)
	var late *tree.LatencyError
	if !errors.As(err, &late) {
		t.Fatalf("the error is %v", err)
	}
	if want := []string{"ma1", "SA1", "SA2", "mc1"}; !slices.Equal(late.Path, want) || late.Latency.Measured != 120*time.Millisecond {
		t.Errorf("the worst path is %v with %v, want %v", late.Path, late.Latency, want)
	}
	anyway, err := tree.BuildLate("ma1", nodes, bound)
	if err != nil || anyway.CheckLatency() == nil || anyway.CheckLatency().Error() != late.Error() {
		t.Errorf("%v: the tree that is late is another than the one of which %v is said:\n%v", err, late, anyway)
	}
}

// The bound makes the tree flatter where the fan-out is free, and puts near nodes before
// strong ones.
func TestLatencyBoundChangesTheTree(t *testing.T) {
	nodes, rtt := zones(64, 1)
	free := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt})
	flat := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt, MaxLatency: 300 * time.Microsecond})
	if free.Depth() != 6 || flat.Depth() != 3 {
		t.Errorf("the depths are %d and %d, want 6 and 3", free.Depth(), flat.Depth())
	}
}

// A hop that was not measured is not held against a tree, but it is reported.
func TestUnmeasuredHops(t *testing.T) {
	nodes, _ := networks(1, 0)
	built := build(t, "ma1", nodes, tree.Bound{MaxLatency: 1})
	if got, known := built.Latency("mc1"); !known || got.Measured != 0 || got.Unmeasured == 0 {
		t.Errorf("the latency is %v", got)
	}
}

func TestRepairsOfNobody(t *testing.T) {
	built := build(t, "s", []tree.Node{member("s", "", ""), member("m", "", "")}, tree.Bound{})
	if _, err := built.Without("s"); err == nil {
		t.Error("the sender was removed")
	}
	if _, err := built.Without("x"); err == nil {
		t.Error("a stranger was removed")
	}
	for _, taken := range []string{"s", "m", ""} {
		if _, err := built.With(member(taken, "", "")); err == nil {
			t.Errorf("%q was added", taken)
		}
	}
	if _, known := built.Node("x"); known || built.Path("x") != nil || built.Children("x") != nil {
		t.Error("a stranger is in the tree")
	}
}
