package manager_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// distanceFrom goes by the first letters of names: nodes with the same first letter are a millisecond apart, all others 40.
func distanceFrom(name string) func(agent string) time.Duration {
	return func(agent string) time.Duration {
		if name[0] == agent[0] {
			return time.Millisecond
		}
		return 40 * time.Millisecond
	}
}

// always claims the same of everybody.
func always(claim time.Duration) func(string) time.Duration {
	return func(string) time.Duration { return claim }
}

// clustersBecome waits until the agents of each cluster are those wanted.
func clustersBecome(t *testing.T, client *sdk.Client, want ...string) []sdk.Agent {
	t.Helper()
	var agents []sdk.Agent
	var last []string
	defer func() {
		if t.Failed() {
			t.Logf("clusters are %v", last)
		}
	}()
	eventually(t, 20*time.Second, fmt.Sprintf("the clusters are %v", want), func() bool {
		var err error
		if agents, err = client.Agents(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := make(map[string][]string)
		for _, agent := range agents {
			all[agent.Cluster] = append(all[agent.Cluster], agent.Name)
		}
		last = last[:0]
		for _, label := range slices.Sorted(maps.Keys(all)) {
			last = append(last, label+": "+strings.Join(all[label], " "))
		}
		return slices.Equal(last, want)
	})
	return agents
}

// Clusters are found from what agents measure. A zone that is given holds, and takes in agents that are near.
func TestClustersAreFound(t *testing.T) {
	t.Parallel()
	m, p := startParty(t)
	for _, name := range []string{"a1", "a2", "b1", "b2", "c2"} {
		p.agentAt(t, name, name, "", distanceFrom(name))
	}
	p.agentAt(t, "c1", "c1", "zone-c", distanceFrom("c1"))
	agents := clustersBecome(t, m.Client(t), "zone-c: c1 c2", "~a1: a1 a2", "~b1: b1 b2")
	for _, agent := range agents {
		trips := agent.RoundTrips
		if len(trips) == 0 || trips[0].Agent[0] != agent.Name[0] || trips[0].Time != time.Millisecond {
			t.Errorf("%s shows %v, want its neighbour first", agent.Name, trips)
		}
	}
	for name, want := range map[string]float64{"groupcast_manager_clusters": 3, "groupcast_manager_round_trips": 15} {
		eventually(t, 20*time.Second, fmt.Sprintf("%s is %v", name, want), func() bool { return gauge(t, m, name) == want })
	}
}

// A liar that claims to be near everybody attracts nobody: others measure it, too. What nobody asked for, and what cannot be true, is dropped
// and counted.
func TestLiarAttractsNobody(t *testing.T) {
	t.Parallel()
	m, p := startParty(t)
	for _, name := range []string{"a1", "a2", "b1"} {
		p.agentAt(t, name, name, "", distanceFrom(name))
	}
	p.agentAt(t, "liar", "x", "", always(10*time.Microsecond))
	absurd := p.agentAt(t, "zero", "y", "", always(0))
	sender := p.joinAt(t, "a-sender", "", distanceFrom("a-sender"), send)
	member := p.joinAt(t, "a-member", "", distanceFrom("a-member"), receiveToo)
	far := p.joinAt(t, "b-member", "", distanceFrom("b-member"), receiveToo)
	clustersBecome(t, m.Client(t), "~a1: a1 a2", "~b1: b1", "~liar: liar", "~zero: zero")
	absurd.mu.Lock()
	absurd.measured = append(absurd.measured, &groupv1.RoundTrip{Agent: "nobody"})
	absurd.mu.Unlock()
	eventually(t, 20*time.Second, "what is not believed is counted", func() bool {
		return gauge(t, m, "groupcast_manager_round_trips_refused_total") >= 2
	})

	for _, n := range []*node{sender, member, far} {
		eventually(t, 20*time.Second, n.name+" has told what it measured", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.surveyed
		})
	}
	id := p.create(t, sender, file(megabyte))
	member.has(t, id, "fed nearby", func(a *groupv1.Assignment) bool { return strings.HasPrefix(a.GetParent().GetName(), "a") })
	far.has(t, id, "fed nearby", fedBy("b1"))
	sender.has(t, id, "sent nearby", func(a *groupv1.Assignment) bool {
		return len(a.GetChildren()) == 1 && strings.HasPrefix(a.GetChildren()[0].GetName(), "a")
	})
}

// An agent that comes back elsewhere is measured anew: what it was near to no longer counts.
func TestAgentThatMoved(t *testing.T) {
	t.Parallel()
	m, p := startParty(t)
	var moved atomic.Bool
	away := func(name string) func(agent string) time.Duration {
		return func(agent string) time.Duration {
			if moved.Load() && (name == "a2" || agent == "a2") {
				return 40 * time.Millisecond
			}
			return time.Millisecond
		}
	}
	p.agentAt(t, "a1", "a1", "", away("a1"))
	second := p.agentAt(t, "a2", "a2", "", away("a2"))
	clustersBecome(t, m.Client(t), "~a1: a1 a2")
	second.stop()
	<-second.ended
	moved.Store(true)
	p.register(t, second, "a2", "")
	clustersBecome(t, m.Client(t), "~a1: a1", "~a2: a2")
	eventually(t, 40*time.Second, "they are known to be far", func() bool {
		for _, agent := range clustersBecome(t, m.Client(t), "~a1: a1", "~a2: a2") {
			if len(agent.RoundTrips) != 1 || agent.RoundTrips[0].Time != 40*time.Millisecond {
				return false
			}
		}
		return true
	})
}

// observed returns how often a manager's histogram was added to.
func observed(t *testing.T, m *managertest.Manager, name string) (times uint64) {
	t.Helper()
	for _, metric := range metrics(t, m, name) {
		times += metric.GetHistogram().GetSampleCount()
	}
	return times
}

// gauge returns a metric of a manager, summed over its labels.
func gauge(t *testing.T, m *managertest.Manager, name string) (sum float64) {
	t.Helper()
	for _, metric := range metrics(t, m, name) {
		sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
	}
	return sum
}

// metrics returns a metric of a manager, with all its labels.
func metrics(t *testing.T, m *managertest.Manager, name string) []*dto.Metric {
	t.Helper()
	families, err := m.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}
