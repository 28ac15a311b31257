// Package placement decides which agents a delivery uses and who feeds whom, from
// the records of its sender, members and agents. It is pure: the rule of the tree
// itself is algo/tree.
package placement

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// ErrNoAgent says that there is no agent to use.
var ErrNoAgent = errors.New("no session agent is online: start one, or let members relay")

// The labels of a member that name its cluster, unless an agent on its node does.
const (
	zoneLabel           = "zone"
	kubernetesZoneLabel = "topology.kubernetes.io/zone"
)

// Network is what a delivery can be spread over.
type Network struct {
	Sender    *groupv1.Member
	Receivers []*groupv1.Member
	// Agents are all agents that may be used: those that are not Usable are left out.
	Agents []*agentv1.Agent
	// LatencyBound is what Build builds a tree within; zero is no bound.
	LatencyBound time.Duration
	// Load is what is delivered.
	Load tree.Load
	// Measured returns what was measured; nil if nothing was.
	Measured func() Measured
}

// Measured is what was measured of agents and members, by their names in trees.
type Measured struct {
	// Clusters are the clusters that were found.
	Clusters map[string]string
	RTT      tree.RTTs
}

// Usable reports whether an agent can take part: it is heard, and can be dialled.
func Usable(agent *agentv1.Agent) bool {
	return agent.GetState() == agentv1.AgentState_AGENT_STATE_ONLINE && len(agent.GetAddresses()) > 0
}

// AgentID and MemberID return the names of nodes in a tree: an agent and a member may have the same name.
func AgentID(name string) identity.ID  { return identity.ID{Role: identity.Agent, Name: name} }
func MemberID(name string) identity.ID { return identity.ID{Role: identity.Member, Name: name} }

// Build returns the tree of all receivers. It fails with ErrNoAgent, or as tree.Build does.
func (n Network) Build() (*tree.Tree, error) {
	built, err := n.BuildLate()
	if err == nil {
		err = built.CheckLatency()
	}
	if err != nil {
		return nil, err
	}
	return built, nil
}

// BuildLate returns the tree of all receivers, for a delivery that goes on: if there is none within LatencyBound, the one that comes nearest
// to it. It fails with ErrNoAgent, or as tree.BuildLate does.
func (n Network) BuildLate() (*tree.Tree, error) {
	agents := n.choose()
	if len(agents) == 0 {
		return nil, ErrNoAgent
	}
	built, err := n.buildOf(agents, nil)
	if err != nil || built.CheckLatency() != nil {
		return built, err
	}
	return n.overTransit(built, agents), nil
}

// buildOf returns the tree over some agents, as tree.BuildLate does. Those in onTheWay have no receivers of their own, and are there for others' sake.
func (n Network) buildOf(agents, onTheWay []*agentv1.Agent) (*tree.Tree, error) {
	byNode := onNodes(agents)
	nodes := []tree.Node{n.member(n.Sender, byNode)}
	for _, receiver := range n.Receivers {
		nodes = append(nodes, n.member(receiver, byNode))
	}
	for _, agent := range agents {
		node := n.agent(agent)
		node.Transit = slices.Contains(onTheWay, agent)
		nodes = append(nodes, node)
	}
	return tree.BuildLate(MemberID(n.Sender.GetName()).String(), nodes, n.bound())
}

// Restore returns a tree that was built for this network.
func (n Network) Restore(links []tree.Link) (*tree.Tree, error) {
	return tree.Restore(links, n.bound())
}

func (n Network) bound() tree.Bound {
	return tree.Bound{MaxLatency: n.LatencyBound, Load: n.Load, RTT: n.measured().RTT}
}

func (n Network) measured() Measured {
	if n.Measured == nil {
		return Measured{}
	}
	return n.Measured()
}

// Joining returns how receivers join, one after the other: the agents are put in order once for all of them. Join returns a tree with one more
// receiver, and with the agent that this one needs if that is not used yet: the agent of its node, the strongest of its cluster, or the nearest.
func (n Network) Joining() (join func(t *tree.Tree, receiver *groupv1.Member) (*tree.Tree, error)) {
	begun := sync.OnceValue(n.begin)
	return func(t *tree.Tree, receiver *groupv1.Member) (*tree.Tree, error) { return begun().join(t, receiver) }
}

// join is what Joining returns.
func (c *chosen) join(t *tree.Tree, receiver *groupv1.Member) (*tree.Tree, error) {
	n := c.Network
	t = n.Remeasured(t)
	clear(c.agents)
	clear(c.entered)
	for _, name := range t.Names() {
		if node, _ := t.Node(name); node.Kind == tree.Agent {
			c.entered[node.Cluster] = true
		}
	}
	c.takeFor(receiver)
	for name, agent := range c.agents {
		if _, used := t.Node(AgentID(name).String()); used {
			continue
		}
		with, err := t.With(n.agent(agent))
		if err != nil {
			return nil, err
		}
		t = with
	}
	return t.With(n.member(receiver, c.byNode))
}

// Return returns the tree with an agent that was out of it for a while.
func (n Network) Return(t *tree.Tree, agent *agentv1.Agent) (*tree.Tree, error) {
	return n.Remeasured(t).With(n.agent(agent))
}

// Remeasured returns the tree as it is by what is measured now.
func (n Network) Remeasured(t *tree.Tree) *tree.Tree {
	if n.Measured == nil {
		return t
	}
	return t.Measured(n.Measured().RTT)
}

// usable returns the agents that can take part, those to prefer first.
func (n Network) usable() []*agentv1.Agent {
	usable := slices.DeleteFunc(slices.Clone(n.Agents), func(agent *agentv1.Agent) bool { return !Usable(agent) })
	nodes := make(map[*agentv1.Agent]tree.Node, len(usable)) // made once, and not with each comparison
	for _, agent := range usable {
		nodes[agent] = Network{}.agent(agent)
	}
	slices.SortFunc(usable, func(a, b *agentv1.Agent) int { return tree.Stronger(nodes[a], nodes[b]) })
	return usable
}

// stronger orders agents: the one to prefer comes first.
func stronger(a, b *agentv1.Agent) int {
	return tree.Stronger(Network{}.agent(a), Network{}.agent(b))
}

// choose returns the agents to use: those on the nodes of the sender and the receivers; one for each other cluster that has receivers, and more
// where it has many to feed; for each receiver whose cluster has none, the nearest; and one at least.
func (n Network) choose() []*agentv1.Agent {
	c := n.begin()
	c.takeOccupied()
	var strangers []*groupv1.Member
	for _, receiver := range n.Receivers {
		if !c.takeOwn(receiver) {
			strangers = append(strangers, receiver)
		}
	}
	c.takeHelpers()
	for _, receiver := range strangers {
		c.takeNearest(receiver)
	}
	if len(c.agents) == 0 && len(c.usable) > 0 {
		c.take(c.usable[0])
	}
	return slices.SortedFunc(maps.Values(c.agents), func(a, b *agentv1.Agent) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// chosen are the agents that are to be used.
type chosen struct {
	Network
	usable  []*agentv1.Agent // those to prefer first
	ids     []string         // the names of usable in trees
	byNode  map[string]*agentv1.Agent
	agents  map[string]*agentv1.Agent
	entered map[string]bool // clusters
}

// begin returns a choice in which no agent is taken yet.
func (n Network) begin() *chosen {
	c := &chosen{Network: n, usable: n.usable(), agents: make(map[string]*agentv1.Agent), entered: make(map[string]bool)}
	c.byNode = onNodes(c.usable)
	c.usable = slices.DeleteFunc(c.usable, c.isSecond)
	for _, agent := range c.usable {
		c.ids = append(c.ids, AgentID(agent.GetName()).String())
	}
	return c
}

func (c *chosen) take(agent *agentv1.Agent) {
	c.agents[agent.GetName()] = agent
	c.entered[c.clusterOf(agent)] = true
}

// takeOccupied takes the agents on the nodes of the sender and the receivers. Of several on a node it takes the one that feeds the members
// there: through another one, all bytes would come to the node, and leave it, once more.
func (c *chosen) takeOccupied() {
	occupied := map[string]bool{c.Sender.GetNode(): true}
	for _, receiver := range c.Receivers {
		occupied[receiver.GetNode()] = true
	}
	for _, agent := range c.usable {
		if agent.GetNode() != "" && occupied[agent.GetNode()] && !c.isSecond(agent) {
			c.take(agent)
		}
	}
}

// isSecond reports whether another agent on its node is preferred.
func (c *chosen) isSecond(agent *agentv1.Agent) bool {
	return agent.GetNode() != "" && c.byNode[agent.GetNode()] != agent
}

// takeFor takes the agent that a receiver needs.
func (c *chosen) takeFor(receiver *groupv1.Member) {
	if !c.takeOwn(receiver) {
		c.takeNearest(receiver)
	}
}

// takeOwn takes the agent of a receiver's node or, if there is none, the strongest of its cluster, unless one of that cluster is taken. It
// reports whether there is such an agent.
func (c *chosen) takeOwn(receiver *groupv1.Member) bool {
	if own, has := c.byNode[receiver.GetNode()]; has {
		c.take(own)
		return true
	}
	own := c.clusterOfMember(receiver, c.byNode)
	strongest := slices.IndexFunc(c.usable, func(agent *agentv1.Agent) bool { return own != "" && c.clusterOf(agent) == own })
	if strongest >= 0 && !c.entered[own] {
		c.take(c.usable[strongest])
	}
	return strongest >= 0
}

// takeHelpers takes more agents of clusters whose agents have to feed receivers that are not on their nodes: as many as let the last of these
// receivers be done soonest. A bound on latency leaves no room for that.
func (c *chosen) takeHelpers() {
	if c.LatencyBound > 0 {
		return
	}
	crowds := make(map[string]int)
	for _, receiver := range c.Receivers {
		if _, has := c.byNode[receiver.GetNode()]; !has {
			crowds[c.clusterOfMember(receiver, c.byNode)]++
		}
	}
	for cluster, members := range crowds {
		if cluster == "" || !c.entered[cluster] {
			continue
		}
		taken, rest := c.helpersIn(cluster)
		if len(rest) > 0 {
			for _, agent := range rest[:c.Load.Spread(members, taken, taken+len(rest), c.agent(rest[0]).Capacity())-taken] {
				c.take(agent)
			}
		}
	}
}

// helpersIn returns how many agents of a cluster are taken, and the others, the strongest first. Others with less than half as much to give as
// the strongest of them are left out.
func (c *chosen) helpersIn(cluster string) (taken int, rest []*agentv1.Agent) {
	for _, agent := range c.usable {
		switch _, is := c.agents[agent.GetName()]; {
		case c.clusterOf(agent) != cluster, c.isSecond(agent):
		case is:
			taken++
		case len(rest) == 0 || c.agent(agent).Capacity() >= c.agent(rest[0]).Capacity()/2:
			rest = append(rest, agent)
		}
	}
	return taken, rest
}

// takeNearest takes the agent with the shortest measured round trip to a receiver whose cluster has none. Agents of the receiver's zone count
// as near, unless their round trip was measured, too; one of them is enough.
func (c *chosen) takeNearest(receiver *groupv1.Member) {
	own, times, id := c.clusterOfMember(receiver, c.byNode), c.measured().RTT.Nodes, MemberID(receiver.GetName()).String()
	var nearest *agentv1.Agent
	shortest, taken := time.Duration(0), false
	for i, agent := range c.usable {
		rtt, known := times[tree.Pair{A: c.ids[i], B: id}]
		if !known && tree.SameZone(c.clusterOf(agent), own) {
			rtt, known = tree.AroundZone, true
		}
		_, is := c.agents[agent.GetName()]
		if known && (nearest == nil || rtt < shortest || rtt == shortest && is && !taken) {
			nearest, shortest, taken = agent, rtt, is
		}
	}
	if nearest != nil {
		c.take(nearest)
	}
}

// onNodes returns the agent of each node; where there are several, a session agent before members that relay, which say themselves where they
// are and how strong, and then the strongest.
func onNodes(agents []*agentv1.Agent) map[string]*agentv1.Agent {
	byNode := make(map[string]*agentv1.Agent)
	for _, agent := range agents {
		known, has := byNode[agent.GetNode()]
		if agent.GetNode() != "" && (!has || isPreferred(agent, known)) {
			byNode[agent.GetNode()] = agent
		}
	}
	return byNode
}

func isPreferred(agent, known *agentv1.Agent) bool {
	_, _, relays := AgentID(agent.GetName()).Relay()
	if _, _, knownRelays := AgentID(known.GetName()).Relay(); relays != knownRelays {
		return knownRelays
	}
	return stronger(agent, known) < 0
}

// clusterOf returns the cluster of an agent: its zone, or what was found.
func (n Network) clusterOf(agent *agentv1.Agent) string {
	return cmp.Or(agent.GetZone(), n.measured().Clusters[AgentID(agent.GetName()).String()])
}

// clusterOfMember returns the cluster of a member: that of its node's agent, what its
// labels say, or what was found.
func (n Network) clusterOfMember(member *groupv1.Member, byNode map[string]*agentv1.Agent) string {
	if own, has := byNode[member.GetNode()]; has && n.clusterOf(own) != "" {
		return n.clusterOf(own)
	}
	labels := member.GetLabels()
	return cmp.Or(labels[zoneLabel], labels[kubernetesZoneLabel], n.measured().Clusters[MemberID(member.GetName()).String()])
}

func (n Network) member(member *groupv1.Member, byNode map[string]*agentv1.Agent) tree.Node {
	node := tree.Node{Name: MemberID(member.GetName()).String(), Kind: tree.Member, Cluster: n.clusterOfMember(member, byNode)}
	if own, has := byNode[member.GetNode()]; has {
		node.Agent = AgentID(own.GetName()).String()
	}
	return node
}

func (n Network) agent(agent *agentv1.Agent) tree.Node {
	return tree.Node{
		Name: AgentID(agent.GetName()).String(), Kind: tree.Agent, Cluster: n.clusterOf(agent),
		Uplink: agent.GetCapacity().GetUplinkBytesPerSecond(),
	}
}
