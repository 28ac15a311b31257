// Package placement decides which agents a delivery uses and who feeds whom, from
// the records of its sender, members and agents. It is pure: the rule of the tree
// itself is algo/tree.
package placement

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// ErrNoAgent says that there is no agent to use.
var ErrNoAgent = errors.New("no session agent is online: start one")

// The labels of a member that name its cluster where no agent of its node does.
const (
	zoneLabel           = "zone"
	kubernetesZoneLabel = "topology.kubernetes.io/zone"
)

// Network is what a delivery can be spread over.
type Network struct {
	Sender    *groupv1.Member
	Receivers []*groupv1.Member
	// Agents are all that may be used: those that are not Usable are left out.
	Agents []*agentv1.Agent
	// LatencyBound is what the tree must keep; zero is no bound.
	LatencyBound time.Duration
	// Load is what is delivered.
	Load tree.Load
}

// Usable tells whether an agent can take part: it is heard, and can be dialled.
func Usable(agent *agentv1.Agent) bool {
	return agent.GetState() == agentv1.AgentState_AGENT_STATE_ONLINE && len(agent.GetAddresses()) > 0
}

// AgentID and MemberID name the nodes of a tree: an agent and a member may have the same name.
func AgentID(name string) identity.ID  { return identity.ID{Role: identity.Agent, Name: name} }
func MemberID(name string) identity.ID { return identity.ID{Role: identity.Member, Name: name} }

// Build returns the tree of all receivers. It fails with ErrNoAgent, or as tree.Build does.
func (n Network) Build() (*tree.Tree, error) {
	agents := n.choose()
	if len(agents) == 0 {
		return nil, ErrNoAgent
	}
	byNode := onNodes(agents)
	nodes := []tree.Node{n.member(n.Sender, byNode)}
	for _, receiver := range n.Receivers {
		nodes = append(nodes, n.member(receiver, byNode))
	}
	for _, agent := range agents {
		nodes = append(nodes, agentNode(agent))
	}
	return tree.Build(MemberID(n.Sender.GetName()).String(), nodes, n.bound())
}

// Restore returns a tree that was built for this network.
func (n Network) Restore(links []tree.Link) (*tree.Tree, error) {
	return tree.Restore(links, n.bound())
}

func (n Network) bound() tree.Bound { return tree.Bound{MaxLatency: n.LatencyBound, Load: n.Load} }

// Join returns the tree with one more receiver and, if it has one that is not used
// yet, the agent of its own node.
func (n Network) Join(t *tree.Tree, receiver *groupv1.Member) (*tree.Tree, error) {
	byNode := onNodes(n.usable())
	if own, has := byNode[receiver.GetNode()]; has {
		if _, used := t.Node(AgentID(own.GetName()).String()); !used {
			with, err := t.With(agentNode(own))
			if err != nil {
				return nil, err
			}
			t = with
		}
	}
	return t.With(n.member(receiver, byNode))
}

// Return returns the tree with an agent that was out of it for a while.
func (n Network) Return(t *tree.Tree, agent *agentv1.Agent) (*tree.Tree, error) {
	return t.With(agentNode(agent))
}

func (n Network) usable() []*agentv1.Agent {
	usable := slices.DeleteFunc(slices.Clone(n.Agents), func(agent *agentv1.Agent) bool { return !Usable(agent) })
	slices.SortFunc(usable, stronger)
	return usable
}

// stronger orders agents: the one to prefer first.
func stronger(a, b *agentv1.Agent) int {
	return tree.Stronger(agentNode(a), agentNode(b))
}

// choose returns the agents to use: those on the nodes of the sender and the
// receivers, one for each other cluster that has receivers, and one at least.
func (n Network) choose() []*agentv1.Agent {
	usable := n.usable()
	chosen := make(map[string]*agentv1.Agent)
	entered := make(map[string]bool)
	take := func(agent *agentv1.Agent) {
		chosen[agent.GetName()] = agent
		entered[agent.GetZone()] = true
	}
	occupied := map[string]bool{n.Sender.GetNode(): true}
	for _, receiver := range n.Receivers {
		occupied[receiver.GetNode()] = true
	}
	for _, agent := range usable {
		if agent.GetNode() != "" && occupied[agent.GetNode()] {
			take(agent)
		}
	}
	byNode := onNodes(usable)
	for _, receiver := range n.Receivers {
		zone := zoneOf(receiver, byNode)
		strongest := slices.IndexFunc(usable, func(agent *agentv1.Agent) bool { return agent.GetZone() == zone })
		if zone != "" && !entered[zone] && strongest >= 0 {
			take(usable[strongest])
		}
	}
	if len(chosen) == 0 && len(usable) > 0 {
		take(usable[0])
	}
	return slices.SortedFunc(maps.Values(chosen), func(a, b *agentv1.Agent) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// onNodes returns the agent of each node, the one to prefer where there are several.
func onNodes(agents []*agentv1.Agent) map[string]*agentv1.Agent {
	byNode := make(map[string]*agentv1.Agent)
	for _, agent := range agents {
		known, has := byNode[agent.GetNode()]
		if agent.GetNode() != "" && (!has || stronger(agent, known) < 0) {
			byNode[agent.GetNode()] = agent
		}
	}
	return byNode
}

// zoneOf returns the cluster of a member.
func zoneOf(member *groupv1.Member, byNode map[string]*agentv1.Agent) string {
	return cmp.Or(byNode[member.GetNode()].GetZone(), member.GetLabels()[zoneLabel], member.GetLabels()[kubernetesZoneLabel])
}

func (n Network) member(member *groupv1.Member, byNode map[string]*agentv1.Agent) tree.Node {
	node := tree.Node{Name: MemberID(member.GetName()).String(), Kind: tree.Member, Cluster: zoneOf(member, byNode)}
	if own, has := byNode[member.GetNode()]; has {
		node.Agent = AgentID(own.GetName()).String()
	}
	return node
}

func agentNode(agent *agentv1.Agent) tree.Node {
	return tree.Node{
		Name: AgentID(agent.GetName()).String(), Kind: tree.Agent, Cluster: agent.GetZone(),
		Uplink: agent.GetCapacity().GetUplinkBytesPerSecond(),
	}
}
