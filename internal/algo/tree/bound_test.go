package tree_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// With a latency bound the rules hold too. Either the bound is kept, or the path that breaks it leads to a member.
func TestBuildWithinLatencyBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 20)
		network.bound.MaxLatency = time.Duration(rapid.IntRange(1, 200).Draw(t, "bound")) * time.Millisecond
		built, err := tree.Build(network.sender, network.nodes, network.bound)
		var full *tree.FanOutError
		var late *tree.LatencyError
		switch {
		case errors.As(err, &late):
			if late.Latency.Measured <= late.Limit || late.Path[0] != "s" || len(late.Path) < 2 {
				t.Errorf("the error is %v", err)
			}
		case errors.As(err, &full) && network.bound.FanOut > 0:
		case err != nil:
			t.Fatal(err)
		default:
			wantRules(t, network, built)
			if err := built.CheckLatency(); err != nil {
				t.Error(err)
			}
		}
	})
}

// usualFanOut is the limit for a load of which nothing is known.
const usualFanOut = 3

// Where no limit is given and uplinks are alike, the usual limit holds wherever it leaves room for all.
func TestUsualFanOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 30)
		for i := range network.nodes {
			network.nodes[i].Uplink = 0
		}
		network.bound.FanOut = usualFanOut
		want := network.build(t).String()
		network.bound.FanOut = 0
		if got := network.build(t).String(); got != want {
			t.Errorf("without a limit the tree is\n%s\nwant\n%s", got, want)
		}
	})
}

// Where each computer has an agent and a member, the agent feeds the member beside it, and the usual limit suffices.
func TestAgentsBesideMembers(t *testing.T) {
	nodes, rtt := zones(100, 3)
	built := build(t, "m-node-0000", nodes, tree.Bound{RTT: rtt})
	for _, node := range nodes {
		if parent, fed := built.Parent(node.Name); fed && node.Kind == tree.Member && parent != node.Agent {
			t.Errorf("%s is fed by %s", node.Name, parent)
		}
		if fed := built.Children(node.Name); len(fed) > 1+usualFanOut {
			t.Errorf("%s feeds %v", node.Name, fed)
		}
	}
}
