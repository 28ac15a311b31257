package tree_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

var update = flag.Bool("update", false, "write the golden files anew")

// wantGolden compares a tree's drawing with testdata.
func wantGolden(t *testing.T, name string, got *tree.Tree) {
	t.Helper()
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func build(t testing.TB, sender string, nodes []tree.Node, bound tree.Bound) *tree.Tree {
	t.Helper()
	built, err := tree.Build(sender, nodes, bound)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// "In one-to-many communication, node ma1 sends data to all receivers through session
// agents SA1 and SA2" (000 §IV-A, figure 5), with 1 to 5 members per network.
func TestFigure5(t *testing.T) {
	for members := 1; members <= 5; members++ {
		nodes, rtt := networks(members, 100*time.Millisecond)
		byLatency := build(t, "ma1", nodes, tree.Bound{RTT: rtt, FanOut: 3 * members})
		wantGolden(t, fmt.Sprintf("figure5-networks-%d", members), byLatency)
		byRouter := build(t, "ma1", routers(members), tree.Bound{})
		wantGolden(t, fmt.Sprintf("figure5-routers-%d", members), byRouter)
		for _, built := range []*tree.Tree{byLatency, byRouter} {
			if got := built.Children("ma1"); len(got) != 1 || got[0] != "SA1" {
				t.Errorf("the sender feeds %v, want SA1 alone", got)
			}
			if parent, _ := built.Parent("SA2"); parent != "SA1" {
				t.Errorf("SA2 is fed by %s, want SA1", parent)
			}
		}
	}
}

func TestTypicalClusters(t *testing.T) {
	for _, c := range []struct{ computers, zones int }{{8, 2}, {64, 3}, {500, 5}} {
		nodes, rtt := zones(c.computers, c.zones)
		built := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt})
		wantGolden(t, fmt.Sprintf("zones-%d", c.computers), built)
	}
}

// When a gateway dies, the next gateway of its cluster feeds its children.
func TestDeathOfAGateway(t *testing.T) {
	nodes, rtt := zones(8, 2)
	built := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt})
	repaired, err := built.Without("node-0001")
	if err != nil {
		t.Fatal(err)
	}
	wantGolden(t, "zones-8-without-gateway", repaired)
}

// Without agents the sender feeds everybody; with one agent, that agent does.
func TestFewAgents(t *testing.T) {
	members := []tree.Node{member("s", "", ""), member("a", "", ""), member("b", "x", ""), member("c", "x", "gone")}
	for agents := range 3 {
		nodes := members
		for i := range agents {
			nodes = append(nodes, agent(fmt.Sprintf("agent-%d", i), "", 0))
		}
		wantGolden(t, fmt.Sprintf("agents-%d", agents), build(t, "s", nodes, tree.Bound{}))
	}
}
