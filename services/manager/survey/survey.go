// Package survey knows how far agents and members are from each other, at the manager
// that leads: it tells them whom to measure, keeps what they report, and says who belongs
// together. The rules are algo/cluster's.
//
// A Survey lives as long as a term, in memory: a new leader has everything measured again,
// which takes a few heartbeats. Until then trees are made as without it.
package survey

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/algo/cluster"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// urgentPause is how long a node rests at least between two rounds while there is
	// something to find out, restPause otherwise. Rounds begin with heartbeats.
	urgentPause = 1500 * time.Millisecond
	restPause   = 10 * time.Second
	// foundFor is how long clusters are taken for what they are.
	foundFor = time.Second
	// answerTime is how long a node may take to report what it was asked; until then it is
	// not asked the same again.
	answerTime = time.Minute
	// reported is how many round trips a report has at most.
	reported = 2 * cluster.Round
)

// Survey is what is known of distances, and who is to measure what.
type Survey struct {
	view    *view.View
	metrics *Metrics

	mu       sync.Mutex
	times    *cluster.Times
	rounds   map[Node]*rounds
	findings map[time.Duration]*finding // by threshold
	swept    time.Time
	changed  <-chan struct{} // closed when there are other agents than those found
}

// Node is one who measures.
type Node struct {
	group string // empty for an agent
	name  string
}

// Agent is an agent as one who measures, and Member a member of a group.
func Agent(name string) Node         { return Node{name: name} }
func Member(group, name string) Node { return Node{group, name} }

// key is the node's name among all: an agent's own, in which there is no slash.
func (n Node) key() string {
	if n.group == "" {
		return n.name
	}
	return n.group + "/" + n.name
}

// rounds are whom a node is to measure, and when it is asked again.
type rounds struct {
	asked  map[string]time.Time // since when it owes an answer, by agent
	last   time.Time
	urgent bool
	agents int // how many there were
}

// isDue tells whether there is another round now that there are so many agents.
func (r *rounds) isDue(agents int, now time.Time) bool {
	if r.urgent || agents != r.agents {
		return now.Sub(r.last) >= urgentPause
	}
	return now.Sub(r.last) >= restPause
}

// waits tells whether the node owes an answer.
func (r *rounds) waits(agent string) bool {
	_, asked := r.asked[agent]
	return asked
}

// giveUp forgets what was not answered.
func (r *rounds) giveUp(now time.Time) {
	for agent, since := range r.asked {
		if now.Sub(since) > answerTime {
			delete(r.asked, agent)
		}
	}
}

// finding are the clusters at one threshold.
type finding struct {
	clusters *cluster.Clusters
	at, used time.Time
	guests   map[Node]string
}

// Lead returns the survey of a term.
func Lead(shown *view.View, metrics *Metrics) *Survey {
	_, changed := shown.Changes("") // of no group
	return &Survey{
		view: shown, metrics: metrics, times: cluster.NewTimes(),
		rounds: make(map[Node]*rounds), findings: make(map[time.Duration]*finding), changed: changed,
	}
}

// Ask returns whom a node is to measure now; nil if nobody.
func (s *Survey) Ask(node Node) *groupv1.Measuring {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	r := s.rounds[node]
	if r == nil {
		r = &rounds{asked: make(map[string]time.Time)}
		s.rounds[node] = r
	}
	found := s.find(cluster.DefaultThreshold, now).clusters
	if !r.isDue(found.Len(), now) {
		return nil
	}
	r.giveUp(now)
	r.last, r.agents = now, found.Len()
	var names []string
	names, r.urgent = found.Next(node.key(), s.times, r.waits, now)
	return s.ask(r, names, now)
}

func (s *Survey) ask(r *rounds, agents []string, now time.Time) *groupv1.Measuring {
	var measuring *groupv1.Measuring
	for _, name := range agents {
		agent, known := s.view.Agent(name)
		if !known {
			continue
		}
		if measuring == nil {
			measuring = new(groupv1.Measuring)
		}
		measuring.Agents = append(measuring.Agents, &groupv1.Neighbour{Name: name, Role: string(identity.Agent), Addresses: agent.GetAddresses()})
		r.asked[name] = now
	}
	return measuring
}

// Take takes what a node has measured. What it was not asked for, or cannot be, is dropped.
func (s *Survey) Take(node Node, measured []*groupv1.RoundTrip) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[node]
	for _, one := range measured[:min(len(measured), reported)] {
		if r == nil || !r.waits(one.GetAgent()) {
			s.metrics.refuse(unasked)
			continue
		}
		delete(r.asked, one.GetAgent())
		if one.GetTime().CheckValid() != nil || !s.times.Take(node.key(), one.GetAgent(), one.GetTime().AsDuration(), time.Now()) {
			s.metrics.refuse(impossible)
		}
	}
}

// find returns the clusters at a threshold, as they are or were a moment ago.
func (s *Survey) find(threshold time.Duration, now time.Time) *finding {
	f := s.findings[threshold]
	if f == nil {
		f = &finding{guests: make(map[Node]string)}
		s.findings[threshold] = f
	}
	f.used = now
	s.noteChange()
	if f.clusters == nil || now.Sub(f.at) >= foundFor {
		f.clusters, f.at = cluster.Find(s.nodes(), s.times, threshold, f.clusters, now), now
	}
	return f
}

// noteChange has clusters found anew if an agent has come or gone.
func (s *Survey) noteChange() {
	select {
	case <-s.changed:
	default:
		return
	}
	_, s.changed = s.view.Changes("")
	for _, f := range s.findings {
		f.at = time.Time{}
	}
}

// nodes returns the agents that can be measured.
func (s *Survey) nodes() (nodes []cluster.Node) {
	for _, agent := range s.agents() {
		nodes = append(nodes, cluster.Node{Name: agent.GetName(), Label: agent.GetZone()})
	}
	return nodes
}

func (s *Survey) agents() (usable []*agentv1.Agent) {
	agents, _ := s.view.Agents("", int(^uint(0)>>1))
	for _, agent := range agents {
		if placement.Usable(agent) {
			usable = append(usable, agent)
		}
	}
	return usable
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
	for threshold, f := range s.findings {
		if now.Sub(f.used) > cluster.MaxAge {
			delete(s.findings, threshold)
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
	now := time.Now()
	return Count{len(s.between(s.agents(), now)), len(s.find(cluster.DefaultThreshold, now).clusters.All())}
}

// shown is how many round trips of an agent are shown.
const shown = 32

// Show adds to an agent what is known of where it is.
func (s *Survey) Show(agent *agentv1.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	agent.Cluster = s.find(cluster.DefaultThreshold, now).clusters.Of(agent.GetName())
	for to := range s.times.Of(agent.GetName(), now) {
		if rtt, known := s.times.Between(agent.GetName(), to, now); known {
			agent.RoundTrips = append(agent.RoundTrips, &groupv1.RoundTrip{Agent: to, Time: durationpb.New(rtt)})
		}
	}
	sortByTime(agent.GetRoundTrips())
	agent.RoundTrips = agent.GetRoundTrips()[:min(shown, len(agent.GetRoundTrips()))]
}

// Why a round trip is not believed.
const (
	unasked    = "unasked"
	impossible = "impossible"
)

// Metrics count what surveys do not believe. They outlive terms.
type Metrics struct{ refused *prometheus.CounterVec }

// NewMetrics returns metrics with all the series that they can have.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "groupcast_manager_round_trips_refused_total", Help: "Round trips that were reported and not believed, by reason: nobody had asked, or it cannot be.",
	}, []string{"reason"})}
	for _, reason := range []string{unasked, impossible} {
		m.refused.WithLabelValues(reason)
	}
	registry.MustRegister(m.refused)
	return m
}

func (m *Metrics) refuse(reason string) { m.refused.WithLabelValues(reason).Inc() }
