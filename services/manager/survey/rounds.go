package survey

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/cluster"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

const (
	// urgentPause is how long a node rests at least between two rounds while there is something to find out, restPause how long otherwise.
	// Rounds begin with heartbeats.
	urgentPause = 1500 * time.Millisecond
	restPause   = 20 * time.Second
	// answerTime is how long a node may take to report what it was asked. Until then it is not asked the same again.
	answerTime = time.Minute
	// reported is how many round trips a report has at most.
	reported = 2 * cluster.Round
)

// Node is an agent or a member that measures.
type Node struct {
	group string // empty for an agent
	name  string
}

// Agent returns an agent as a node, and Member a member of a group.
func Agent(name string) Node         { return Node{name: name} }
func Member(group, name string) Node { return Node{group, name} }

// key is the node's name among all nodes: for an agent it is the agent's own, which has no slash in it.
func (n Node) key() string {
	if n.group == "" {
		return n.name
	}
	return n.group + "/" + n.name
}

// rounds says which agents a node is to measure, and when it is asked again.
type rounds struct {
	incarnation uint64

	asked  map[string]time.Time // since when it owes an answer, by agent
	last   time.Time
	urgent bool
	agents int // how many there were
}

// isDue reports whether there is another round, now that there are so many agents.
func (r *rounds) isDue(agents int, now time.Time) bool {
	if r.urgent || agents != r.agents {
		return now.Sub(r.last) >= urgentPause
	}
	return now.Sub(r.last) >= restPause
}

// waits reports whether the node owes an answer.
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

// Begin notes that a node can be asked. If its incarnation is another than before, the node may be elsewhere, and is measured anew.
func (s *Survey) Begin(node Node, incarnation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rounds[node]; r == nil || r.incarnation != incarnation {
		s.times.Drop(node.key())
		s.rounds[node] = &rounds{
			incarnation: incarnation, asked: make(map[string]time.Time), urgent: true, last: time.Now().Add(-urgentPause),
		}
	}
}

// Ask returns which agents a node is to measure now; nil if none.
func (s *Survey) Ask(node Node) *groupv1.Measuring {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	r := s.rounds[node]
	if r == nil {
		return nil // it was forgotten: its stream will break, too
	}
	found := s.find(s.around(node), now).clusters
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

// Take takes what a node has measured. What the node was not asked for, and what cannot be true, is dropped.
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
