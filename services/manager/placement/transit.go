package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
)

const (
	// transitMost is how many agents without receivers a tree has at most. transitTried is how many are tried for each of them.
	transitMost  = 3
	transitTried = 8
	// sparing is how much of the length of a tree's hops may be left, at most, for an agent without receivers to be worth it. transitDelay is
	// by how much later the last member may then get its bytes.
	sparing      = 0.8
	transitDelay = 5 * time.Millisecond
)

// overTransit returns the tree with agents that have no receivers, where that spares copies over long links: an agent on the way to several far
// clusters is fed once, and copies for them.
func (n Network) overTransit(built *tree.Tree, chosen []*agentv1.Agent) *tree.Tree {
	var onTheWay []*agentv1.Agent
	for len(onTheWay) < transitMost {
		better, agent := n.viaOne(built, chosen, onTheWay)
		if agent == nil {
			break
		}
		built, onTheWay = better, append(onTheWay, agent)
	}
	return built
}

// viaOne returns the best tree with one more agent, if that is worth it.
func (n Network) viaOne(built *tree.Tree, chosen, onTheWay []*agentv1.Agent) (best *tree.Tree, agent *agentv1.Agent) {
	length, worst := built.Span()
	for _, candidate := range n.candidates(slices.Concat(chosen, onTheWay)) {
		via := append(slices.Clone(onTheWay), candidate)
		with, err := n.buildOf(slices.Concat(chosen, via), via)
		if err != nil || with.CheckLatency() != nil {
			continue
		}
		span, last := with.Span()
		if float64(span) <= sparing*float64(length) && last <= worst+transitDelay && len(with.Children(AgentID(candidate.GetName()).String())) > 1 {
			best, agent, length = with, candidate, time.Duration(float64(span)/sparing)
		}
	}
	return best, agent
}

// candidates returns the strongest agent of each cluster of which none is chosen. Those come first whose two nearest chosen agents are the
// nearest.
func (n Network) candidates(chosen []*agentv1.Agent) []*agentv1.Agent {
	type candidate struct {
		*agentv1.Agent
		near time.Duration
	}
	entered := make(map[string]bool)
	for _, agent := range chosen {
		entered[n.clusterOf(agent)] = true
	}
	var candidates []candidate
	for _, agent := range n.usable() {
		cluster := n.clusterOf(agent)
		if cluster == "" || entered[cluster] {
			continue
		}
		entered[cluster] = true
		var times []time.Duration
		for _, other := range chosen {
			if rtt, measured := n.rtt(agent, other); measured {
				times = append(times, rtt)
			}
		}
		if slices.Sort(times); len(times) > 1 {
			candidates = append(candidates, candidate{agent, times[0] + times[1]})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.near, b.near) })
	var agents []*agentv1.Agent
	for _, one := range candidates[:min(len(candidates), transitTried)] {
		agents = append(agents, one.Agent)
	}
	return agents
}

// rtt returns the round trip between two agents or, if that was not measured, between their clusters.
func (n Network) rtt(a, b *agentv1.Agent) (time.Duration, bool) {
	times := n.measured().RTT
	for _, between := range []struct {
		times map[tree.Pair]time.Duration
		a, b  string
	}{{times.Nodes, AgentID(a.GetName()).String(), AgentID(b.GetName()).String()}, {times.Clusters, n.clusterOf(a), n.clusterOf(b)}} {
		for _, pair := range []tree.Pair{{A: between.a, B: between.b}, {A: between.b, B: between.a}} {
			if rtt, measured := between.times[pair]; measured {
				return rtt, true
			}
		}
	}
	return 0, false
}
