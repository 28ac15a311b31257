package survey

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/algo/cluster"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// there is agents, and members by group.
type there struct {
	agents  []*agentv1.Agent
	members map[string][]*groupv1.Member
	changed chan struct{}
}

func (t *there) AllAgents() []*agentv1.Agent                      { return t.agents }
func (t *there) AllMembers(group string) []*groupv1.Member        { return t.members[group] }
func (t *there) Changes(string) (members, agents <-chan struct{}) { return nil, t.changed }

func (t *there) Agent(name string) (record view.Agent, found bool) {
	at := slices.IndexFunc(t.agents, func(agent *agentv1.Agent) bool { return agent.GetName() == name })
	if at < 0 {
		return record, false
	}
	return view.Agent{Agent: t.agents[at]}, true
}

// comes adds an agent.
func (t *there) comes(name, zone string) {
	t.agents = append(t.agents, &agentv1.Agent{
		Name: name, Zone: zone, Addresses: []string{name + ":7475"}, State: agentv1.AgentState_AGENT_STATE_ONLINE,
	})
	close(t.changed)
	t.changed = make(chan struct{})
}

// surveyed is a survey of the nodes that are there, which measure the agents that they are told to.
type surveyed struct {
	*Survey
	*there
	nodes []Node
	rtt   func(from, to string) time.Duration
	asked map[string][]string // which agents each node was told to measure
}

func surveying(rtt func(from, to string) time.Duration) *surveyed {
	who := &there{members: make(map[string][]*groupv1.Member), changed: make(chan struct{})}
	return &surveyed{Survey: Lead(who, NewMetrics(prometheus.NewRegistry())), there: who, rtt: rtt, asked: make(map[string][]string)}
}

func (s *surveyed) agent(name, zone string) {
	s.comes(name, zone)
	s.nodes = append(s.nodes, Agent(name))
}

func (s *surveyed) member(group, name string) {
	s.members[group] = append(s.members[group], &groupv1.Member{Name: name, Group: group})
	s.nodes = append(s.nodes, Member(group, name))
}

// rounds has everybody measure until nobody has to for a while.
func (s *surveyed) rounds(count int) {
	for _, node := range s.nodes {
		s.Begin(node, 1)
	}
	for range count {
		for _, node := range s.nodes {
			var measured []*groupv1.RoundTrip
			for _, to := range s.Ask(node).GetAgents() {
				s.asked[node.key()] = append(s.asked[node.key()], to.GetName())
				measured = append(measured, &groupv1.RoundTrip{Agent: to.GetName(), Time: durationpb.New(s.rtt(node.key(), to.GetName()))})
			}
			s.Take(node, measured)
		}
		time.Sleep(2 * time.Second)
	}
}

// cluster returns the cluster of an agent, as a group's deliveries have it.
func (s *surveyed) cluster(group, agent string) string {
	return s.Measured(group, 0).Clusters[placement.AgentID(agent).String()]
}

// A member that relays is an agent of its group: others are not told that it is there.
func TestRelaysAreTheirGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := surveying(func(string, string) time.Duration { return time.Millisecond })
		s.agent("a", "")
		s.agent("r.one", "")
		s.agent("q.two", "")
		s.member("one", "m")
		s.member("two", "n")
		s.rounds(5)
		for who, want := range map[string][]string{
			"one/m": {"a", "r.one"}, "two/n": {"a", "q.two"}, "r.one": {"a"}, "q.two": {"a"}, "a": {"q.two", "r.one"},
		} {
			asked := s.asked[who]
			slices.Sort(asked)
			if !slices.Equal(slices.Compact(asked), want) {
				t.Errorf("%s measures %v, want %v", who, asked, want)
			}
		}
	})
}

// What the relays of one group call their zone means nothing to another: two homes may have the same name.
func TestZonesOfRelaysAreTheirGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := func(from, to string) time.Duration { // names that begin alike are near each other
			if from[0] == to[0] {
				return time.Millisecond
			}
			return 50 * time.Millisecond
		}
		s := surveying(far)
		s.agent("a1", "")
		s.agent("a2", "eu")
		s.agent("b1", "us")
		s.agent("a8.one", "us") // it says that it is in another zone than it is
		s.agent("a9.one", "home")
		s.agent("b9.two", "home")
		s.rounds(6)
		for group, want := range map[string]time.Duration{"one": time.Millisecond, "two": 50 * time.Millisecond, "none": 50 * time.Millisecond} {
			if got := s.Measured(group, 0).RTT.Clusters[ordered("eu", "us")]; got != want {
				t.Errorf("for group %s eu is %v from us, want %v", group, got, want)
			}
		}
		if got := s.cluster("none", "b9.two"); got != "" {
			t.Errorf("a relay of group two is of cluster %q for another", got)
		}
		if one, two := s.cluster("one", "a9.one"), s.cluster("two", "b9.two"); one != "home" || two != "home" {
			t.Errorf("in their groups relays are of clusters %q and %q", one, two)
		}
	})
}

// The first relay of a group gives no node another cluster than trees that exist have.
func TestFirstRelayRenamesNoCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := surveying(func(string, string) time.Duration { return time.Millisecond })
		s.agent("c", "")
		s.agent("d", "")
		s.rounds(3)
		before := s.cluster("one", "d")
		s.agent("b.one", "")
		s.agent("a", "")
		if after := s.cluster("one", "d"); after != before || before == "" {
			t.Errorf("d is of cluster %q now, and was of %q", after, before)
		}
	})
}

// An agent that comes has clusters found at once. Agents that come again and again do not have them found with each heartbeat.
func TestAgentsThatComeAgainAndAgainAreFoundOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := surveying(func(string, string) time.Duration { return time.Millisecond })
		s.agent("a", "eu")
		if s.cluster("g", "a") != "eu" {
			t.Fatal("an agent that comes first is not known at once")
		}
		found, last := 0, time.Time{}
		for begun := time.Now(); time.Since(begun) < 10*foundFor; time.Sleep(foundFor / 100) {
			s.comes("b", "eu")
			s.there.agents = s.there.agents[:1]
			s.cluster("g", "a")
			if at := s.findings[s.of("g", cluster.DefaultThreshold)].at; at != last {
				found, last = found+1, at
			}
		}
		if found > 21 {
			t.Errorf("in ten times the time for which clusters count they were found %d times", found)
		}
		for range 2 { // so that all changes are noted, and that is a while ago
			time.Sleep(foundFor)
			s.cluster("g", "a")
		}
		s.agent("c", "us")
		time.Sleep(foundFor / 2)
		if s.cluster("g", "c") != "us" {
			t.Error("an agent that comes later is not known at once")
		}
	})
}
