package placement

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Enlarged returns the tree, as it is by what is measured now, with all agents added that would be used for its receivers. Those that are added
// feed nobody yet.
func (n Network) Enlarged(t *tree.Tree) *tree.Tree {
	t = n.Remeasured(t)
	for _, agent := range n.choose() {
		if with, err := n.Return(t, agent); err == nil { // it fails for agents that are there already
			t = with
		}
	}
	return t
}

// WithSpare returns the tree with one more agent, for a receiver that those in the tree cannot feed: the strongest of its cluster, or else the
// nearest, or else the strongest. It fails with ErrNoAgent if all are in the tree.
func (n Network) WithSpare(t *tree.Tree, receiver string) (*tree.Tree, error) {
	spare := slices.DeleteFunc(n.usable(), func(agent *agentv1.Agent) bool {
		_, is := t.Node(AgentID(agent.GetName()).String())
		return is
	})
	if len(spare) == 0 {
		return nil, ErrNoAgent
	}
	node, _ := t.Node(receiver)
	times := n.measured().RTT.Nodes
	distance := func(agent *agentv1.Agent) time.Duration {
		own := n.clusterOf(agent)
		if own != "" && own == node.Cluster {
			return 0
		}
		rtt, known := times[tree.Pair{A: AgentID(agent.GetName()).String(), B: receiver}]
		switch {
		case known:
			return rtt
		case tree.SameZone(own, node.Cluster):
			return tree.AroundZone
		}
		return math.MaxInt64
	}
	// Of several that are equally near the first is the strongest.
	return n.Return(t, slices.MinFunc(spare, func(a, b *agentv1.Agent) int { return cmp.Compare(distance(a), distance(b)) }))
}

// Reduced returns the tree without the agents that feed nobody and were not in an earlier tree.
func Reduced(t, earlier *tree.Tree) *tree.Tree {
	names := t.Names()
	for i := len(names) - 1; i >= 0; i-- { // from the bottom up
		node, _ := t.Node(names[i])
		if _, was := earlier.Node(names[i]); was || node.Kind != tree.Agent || len(t.Children(names[i])) > 0 {
			continue
		}
		if without, err := t.Without(names[i]); err == nil {
			t = without
		}
	}
	return t
}

// Nodes returns the nodes of a tree that may find better parents, as they are known now: its agents, the receivers, and the sender, which may
// feed a better agent.
func (n Network) Nodes(t *tree.Tree) (nodes []tree.Node) {
	receivers := make(map[string]*groupv1.Member, len(n.Receivers))
	for _, receiver := range n.Receivers {
		receivers[MemberID(receiver.GetName()).String()] = receiver
	}
	byNode := onNodes(n.usable())
	for _, name := range t.Names() {
		node, _ := t.Node(name)
		receiver, waits := receivers[name]
		switch {
		case name == t.Sender():
			nodes = append(nodes, n.member(n.Sender, byNode))
		case node.Kind == tree.Agent:
			nodes = append(nodes, node)
		case waits:
			nodes = append(nodes, n.member(receiver, byNode))
		}
	}
	return nodes
}
