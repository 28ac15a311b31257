// Package survey knows how far agents and members are from each other, at the manager
// that leads: it tells them whom to measure, keeps what they report, and says who belongs
// together. The rules are algo/cluster's.
//
// A Survey lives as long as a term, in memory: a new leader has everything measured again,
// which takes a few heartbeats. Until then trees are made as without it.
package survey

import (
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/algo/cluster"
	"github.com/groupcast/groupcast/internal/algo/reshape"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// foundFor is how long clusters count after they were found.
	foundFor = time.Second
	// toldFor is for how long what is measured is kept to find out whether it is still the same: deliveries look for better parents more often.
	toldFor = 2 * reshape.SeekPause
)

// Survey is what is known of distances, and who is to measure what.
type Survey struct {
	view    Records
	metrics *Metrics

	mu       sync.Mutex
	times    *cluster.Times
	rounds   map[Node]*rounds
	findings map[scope]*finding
	told     uint64 // how often what is measured was another than before
	swept    time.Time
	changed  <-chan struct{} // closed when there are other agents than those found
	looked   time.Time       // when it last was looked which these are
	relaying map[string]bool // the groups that have relays
}

// finding is the clusters in a scope, and what follows from them.
type finding struct {
	clusters *cluster.Clusters
	at, used time.Time
	guests   map[Node]string
	told     map[string]told // what is measured with these clusters, by group; also what was with those before, for a while
}

// Records are the agents and members that are there; a *view.View.
type Records interface {
	Agent(name string) (record view.Agent, found bool)
	AllAgents() []*agentv1.Agent
	AllMembers(group string) []*groupv1.Member
	// Changes returns channels that are closed when members of a group, or agents, come, go or change.
	Changes(group string) (members, agents <-chan struct{})
}

// Lead returns the survey of a term.
func Lead(shown Records, metrics *Metrics) *Survey {
	s := &Survey{
		view: shown, metrics: metrics, times: cluster.NewTimes(),
		rounds: make(map[Node]*rounds), findings: make(map[scope]*finding),
	}
	s.look()
	return s
}

// find returns the clusters in a scope, as they are now or were a moment ago.
func (s *Survey) find(in scope, now time.Time) *finding {
	f := s.findings[in]
	if f == nil {
		f = &finding{guests: make(map[Node]string), told: make(map[string]told)}
		if others := s.findings[scope{threshold: in.threshold}]; others != nil {
			f.clusters = others.clusters // a group's first relay gives no cluster another name
		}
		s.findings[in] = f
	}
	f.used = now
	s.noteChange()
	if now.Sub(f.at) >= foundFor {
		f.clusters, f.at = cluster.Find(s.nodes(in), s.times, in.threshold, f.clusters, now), now
		maps.DeleteFunc(f.told, func(_ string, before told) bool { return now.Sub(before.at) > toldFor })
	}
	return f
}

// noteChange has clusters found anew if an agent has come or gone: at once, but not again and again where agents do that.
func (s *Survey) noteChange() {
	now := time.Now()
	if now.Sub(s.looked) < foundFor {
		return
	}
	select {
	case <-s.changed:
	default:
		return
	}
	s.look()
	s.looked = now
	for _, f := range s.findings {
		f.at = time.Time{}
	}
}

// look finds out which groups have relays.
func (s *Survey) look() {
	_, s.changed = s.view.Changes("") // before looking, so that none is missed; of no group
	s.relaying = make(map[string]bool)
	for _, agent := range s.view.AllAgents() {
		if group := relayOf(agent.GetName()); group != "" {
			s.relaying[group] = true
		}
	}
}

// sweep forgets what is old.
func (s *Survey) sweep(now time.Time) {
	if now.Sub(s.swept) < cluster.Refresh {
		return
	}
	s.swept = now
	s.times.Forget(now)
	for node, r := range s.rounds {
		if now.Sub(r.last) > cluster.MaxAge {
			delete(s.rounds, node)
		}
	}
	for in, f := range s.findings {
		if now.Sub(f.used) > cluster.MaxAge {
			delete(s.findings, in)
			continue
		}
		for guest := range f.guests {
			if s.rounds[guest] == nil {
				delete(f.guests, guest)
			}
		}
	}
}

// Count says how much is known.
type Count struct{ RoundTrips, Clusters int }

// Count counts the round trips between agents that both sides have measured, and the
// clusters at the default threshold.
func (s *Survey) Count() Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, all := time.Now(), scope{all: true, threshold: cluster.DefaultThreshold}
	return Count{len(s.between(s.agents(all), now)), len(s.find(all, now).clusters.All())}
}

// shown is how many round trips of an agent are shown.
const shown = 32

// Show adds to an agent what is known of where it is.
func (s *Survey) Show(agent *agentv1.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	in := s.of(relayOf(agent.GetName()), cluster.DefaultThreshold)
	agent.Cluster = s.find(in, now).clusters.Of(agent.GetName())
	for to := range s.times.Of(agent.GetName(), now) {
		if rtt, known := s.times.Between(agent.GetName(), to, now); known {
			agent.RoundTrips = append(agent.RoundTrips, &groupv1.RoundTrip{Agent: to, Time: durationpb.New(rtt)})
		}
	}
	sortByTime(agent.GetRoundTrips())
	agent.RoundTrips = agent.GetRoundTrips()[:min(shown, len(agent.GetRoundTrips()))]
}
