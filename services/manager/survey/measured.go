package survey

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/cluster"
	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// grain is the unit in which trees take round trips: smaller differences are due to the machines, not to the network, and must not make a tree
// another one.
const grain = 250 * time.Microsecond

// coarse rounds up to the grain.
func coarse(rtt time.Duration) time.Duration { return (rtt + grain - 1) / grain * grain }

// Measured returns what is known of the agents and the members of a group, or was known when clusters were last found. The value is shared: its
// maps must not be changed. It is kept because each delivery asks again and again, and every heartbeat waits while it is put together. What trees
// make of it is made once for all of them, while no heartbeat waits.
func (s *Survey) Measured(group string, threshold time.Duration) placement.Measured {
	return s.tell(group, threshold).shared()
}

// told is what is measured of a group.
type told struct {
	placement.Measured
	shared func() placement.Measured // the same, ready for trees
	at     time.Time                 // when the clusters were found
}

// tell returns what is known of a group. As long as that is the same it has the same version.
func (s *Survey) tell(group string, threshold time.Duration) told {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	in := s.of(group, cmp.Or(threshold, cluster.DefaultThreshold))
	f := s.find(in, now)
	known, has := f.told[group]
	if has && known.at.Equal(f.at) {
		return known
	}
	if m := s.measured(f, group, s.agents(in), now); !has || !isSame(m, known.Measured) {
		s.told++
		m.RTT.Version = s.told
		known.Measured, known.shared = m, sync.OnceValue(func() placement.Measured {
			m.RTT = m.RTT.Shared()
			return m
		})
	}
	known.at = f.at
	f.told[group] = known
	return known
}

func isSame(a, b placement.Measured) bool {
	return maps.Equal(a.RTT.Nodes, b.RTT.Nodes) && maps.Equal(a.RTT.Clusters, b.RTT.Clusters) && maps.Equal(a.Clusters, b.Clusters)
}

// measured puts together what is known of the agents and the members of a group.
func (s *Survey) measured(f *finding, group string, agents []*agentv1.Agent, now time.Time) placement.Measured {
	m := measured{placement.Measured{
		Clusters: make(map[string]string),
		RTT:      tree.RTTs{Nodes: make(map[tree.Pair]time.Duration), Clusters: make(map[tree.Pair]time.Duration)},
	}}
	for _, agent := range agents {
		m.Clusters[inTree(agent.GetName())] = f.clusters.Of(agent.GetName())
	}
	for pair, rtt := range s.between(agents, now) {
		m.addAgents(pair, coarse(rtt))
	}
	for _, member := range s.view.AllMembers(group) {
		s.addMember(m, f, Member(group, member.GetName()), now)
	}
	return m.Measured
}

// inTree returns the name of an agent in a tree.
func inTree(agent string) string { return placement.AgentID(agent).String() }

// between returns the round trips between agents that both sides have measured.
func (s *Survey) between(agents []*agentv1.Agent, now time.Time) map[tree.Pair]time.Duration {
	there, all := make(map[string]bool, len(agents)), make(map[tree.Pair]time.Duration)
	for _, agent := range agents {
		there[agent.GetName()] = true
	}
	for from := range there {
		for to := range s.times.Of(from, now) {
			if rtt, known := s.times.Between(from, to, now); known && there[to] && from < to {
				all[tree.Pair{A: from, B: to}] = rtt
			}
		}
	}
	return all
}

// measured is what is measured while it is put together.
type measured struct{ placement.Measured }

// addAgents adds the round trip between two agents. Between clusters the shortest counts: if not all is known of two paths, the one with fewer
// hops is then the shorter.
func (m measured) addAgents(pair tree.Pair, rtt time.Duration) {
	nodes := tree.Pair{A: inTree(pair.A), B: inTree(pair.B)}
	m.RTT.Nodes[nodes] = rtt
	between := ordered(m.Clusters[nodes.A], m.Clusters[nodes.B])
	if known, has := m.RTT.Clusters[between]; !has || rtt < known {
		m.RTT.Clusters[between] = rtt
	}
}

func ordered(a, b string) tree.Pair { return tree.Pair{A: min(a, b), B: max(a, b)} }

// addMember adds what a member has measured. Nobody measures a member: it feeds nobody, and could deceive only itself.
func (s *Survey) addMember(m measured, f *finding, member Node, now time.Time) {
	times, key := s.times.Of(member.key(), now), placement.MemberID(member.name).String()
	if len(times) == 0 {
		return
	}
	if f.guests[member] = f.clusters.Guest(times, f.guests[member]); f.guests[member] != "" {
		m.Clusters[key] = f.guests[member]
	}
	for agent, rtt := range times {
		m.RTT.Nodes[tree.Pair{A: inTree(agent), B: key}] = coarse(rtt)
	}
}

func sortByTime(all []*groupv1.RoundTrip) {
	slices.SortFunc(all, func(a, b *groupv1.RoundTrip) int {
		return cmp.Or(cmp.Compare(a.GetTime().AsDuration(), b.GetTime().AsDuration()), strings.Compare(a.GetAgent(), b.GetAgent()))
	})
}
