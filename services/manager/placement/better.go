package placement

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Enlarging returns how trees are enlarged: which agents would be used for the receivers is found out once, when it is first asked. Enlarge returns a
// tree, as it is by what is measured now, with all of these added. Those that are added feed nobody yet.
func (n Network) Enlarging() (enlarge func(t *tree.Tree) *tree.Tree) {
	chosen := sync.OnceValue(n.choose)
	return func(t *tree.Tree) *tree.Tree {
		t = n.Remeasured(t)
		for _, agent := range chosen() {
			if with, err := t.With(n.agent(agent)); err == nil { // it fails for agents that are there already
				t = with
			}
		}
		return t
	}
}

// Uplinks returns the uplinks of agents by their names in trees.
func (n Network) Uplinks() map[string]uint64 {
	uplinks := make(map[string]uint64, len(n.Agents))
	for _, agent := range n.Agents {
		uplinks[AgentID(agent.GetName()).String()] = agent.GetCapacity().GetUplinkBytesPerSecond()
	}
	return uplinks
}

// WithSpare returns the tree with one more agent, for a receiver that those in the tree cannot feed: the strongest of its cluster, or else the
// nearest, or else the strongest. It is none of those in but. It fails with ErrNoAgent if all others are in the tree.
func (n Network) WithSpare(t *tree.Tree, receiver string, but ...string) (*tree.Tree, error) {
	spare, _ := n.spare(t, receiver, but)
	if spare == nil {
		return nil, ErrNoAgent
	}
	return n.Return(t, spare)
}

// WithNear returns the tree with one more agent that is in a receiver's cluster or zone, or as near, and the agent's name in it. It fails with
// ErrNoAgent if there is none, or if the tree has such an agent beside the one that feeds the receiver. Those in but count as neither.
func (n Network) WithNear(t *tree.Tree, receiver string, but ...string) (with *tree.Tree, added string, err error) {
	spare, away := n.spare(t, receiver, but)
	if spare == nil || away > tree.AroundZone {
		return nil, "", ErrNoAgent
	}
	from, _ := t.Parent(receiver)
	node, _ := t.Node(receiver)
	for _, name := range t.Names() {
		if name == from || slices.Contains(but, name) {
			continue
		}
		if other, _ := t.Node(name); other.Kind == tree.Agent && n.distance(name, other.Cluster, node) <= tree.AroundZone {
			return nil, "", ErrNoAgent
		}
	}
	with, err = n.Return(t, spare)
	return with, AgentID(spare.GetName()).String(), err
}

// spare returns the agent that is nearest to a receiver of those that are neither in the tree nor in but, and how far it is; nil if there is
// none. Of several that are equally near it is the strongest.
func (n Network) spare(t *tree.Tree, receiver string, but []string) (nearest *agentv1.Agent, away time.Duration) {
	node, _ := t.Node(receiver)
	for _, agent := range n.usable() { // the strongest first
		name := AgentID(agent.GetName()).String()
		if _, is := t.Node(name); is || slices.Contains(but, name) {
			continue
		}
		if distance := n.distance(name, n.clusterOf(agent), node); nearest == nil || distance < away {
			nearest, away = agent, distance
		}
	}
	return nearest, away
}

// distance returns how far an agent of a cluster is from a receiver; the longest there is if that is not known.
func (n Network) distance(agent, cluster string, receiver tree.Node) time.Duration {
	if cluster != "" && cluster == receiver.Cluster {
		return 0
	}
	rtt, known := n.measured().RTT.Nodes[tree.Pair{A: agent, B: receiver.Name}]
	switch {
	case known:
		return rtt
	case tree.SameZone(cluster, receiver.Cluster):
		return tree.AroundZone
	}
	return math.MaxInt64
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
