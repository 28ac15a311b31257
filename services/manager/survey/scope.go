package survey

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/cluster"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// Members that relay are agents of their own group only: nobody of another group is told of them, or told to measure them, and what they say of
// themselves changes no trees but their group's.

// scope says which agents are looked at, and how near agents are that belong together.
type scope struct {
	group     string // the group whose relays are included beside the agents of all groups
	all       bool   // the relays of all groups are included: for agents, which may feed or be fed by any of them
	threshold time.Duration
}

// of returns the scope of a group. A group without relays has the scope of any other such group.
func (s *Survey) of(group string, threshold time.Duration) scope {
	s.noteChange()
	if !s.relaying[group] {
		group = ""
	}
	return scope{group: group, threshold: threshold}
}

// around returns the scope in which a node measures others.
func (s *Survey) around(node Node) scope {
	if node.group != "" {
		return s.of(node.group, cluster.DefaultThreshold)
	}
	if group := relayOf(node.name); group != "" {
		return s.of(group, cluster.DefaultThreshold)
	}
	return scope{all: true, threshold: cluster.DefaultThreshold}
}

// relayOf returns the group whose relay an agent is; empty if it is none.
func relayOf(agent string) (group string) {
	group, _, _ = identity.ID{Role: identity.Agent, Name: agent}.Relay()
	return group
}

// agents returns the agents of a scope that can be measured.
func (s *Survey) agents(in scope) (usable []*agentv1.Agent) {
	for _, agent := range s.view.AllAgents() {
		if of := relayOf(agent.GetName()); placement.Usable(agent) && (of == "" || in.all || of == in.group) {
			usable = append(usable, agent)
		}
	}
	return usable
}

// nodes returns the agents of a scope, and their clusters as far as these are given: what a relay calls its zone means something only to its
// group.
func (s *Survey) nodes(in scope) (nodes []cluster.Node) {
	for _, agent := range s.agents(in) {
		node := cluster.Node{Name: agent.GetName(), Label: agent.GetZone()}
		if in.all && relayOf(node.Name) != "" {
			node.Label = ""
		}
		nodes = append(nodes, node)
	}
	return nodes
}
