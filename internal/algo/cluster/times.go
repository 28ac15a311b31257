package cluster

import "time"

// DefaultThreshold is how far apart two nodes of a cluster are at most, unless somebody says
// otherwise: far more than within a building, far less than between two cities.
const DefaultThreshold = 2 * time.Millisecond

const (
	// Shortest and Longest bound a plausible round trip: anything else was not measured.
	Shortest = time.Microsecond
	Longest  = 10 * time.Second
	// MaxAge is for how long a measured time counts.
	MaxAge = 10 * time.Minute
	// remembered is how many times are kept of each pair; the shortest of them counts.
	remembered = 4
)

// Times are the round trips that nodes say they have measured.
type Times struct {
	said map[string]map[string]*samples // by the node that says it, and the node that it measured
}

// NewTimes returns Times in which nobody has said anything.
func NewTimes() *Times { return &Times{said: make(map[string]map[string]*samples)} }

// samples are the latest times from one node to another.
type samples struct {
	rtt  [remembered]time.Duration
	at   [remembered]time.Time
	next int
}

// Take notes what a node says of another. It returns false if that is impossible.
func (t *Times) Take(from, to string, rtt time.Duration, now time.Time) bool {
	if rtt < Shortest || rtt > Longest || from == to {
		return false
	}
	if t.said[from] == nil {
		t.said[from] = make(map[string]*samples)
	}
	s := t.said[from][to]
	if s == nil {
		s = new(samples)
		t.said[from][to] = s
	}
	s.rtt[s.next], s.at[s.next] = rtt, now
	s.next = (s.next + 1) % remembered
	return true
}

// Said returns what a node says of another.
func (t *Times) Said(from, to string, now time.Time) (time.Duration, bool) {
	s := t.said[from][to]
	if s == nil {
		return 0, false
	}
	return s.shortest(now)
}

// Between returns the round trip between two nodes, if each has measured the other.
func (t *Times) Between(a, b string, now time.Time) (time.Duration, bool) {
	there, saidThere := t.Said(a, b, now)
	back, saidBack := t.Said(b, a, now)
	return max(there, back), saidThere && saidBack
}

// Of returns the nodes that a node has measured, and its times.
func (t *Times) Of(from string, now time.Time) map[string]time.Duration {
	times := make(map[string]time.Duration, len(t.said[from]))
	for to, s := range t.said[from] {
		if rtt, known := s.shortest(now); known {
			times[to] = rtt
		}
	}
	return times
}

// Drop forgets what a node has said, and what others have said of it.
func (t *Times) Drop(name string) {
	delete(t.said, name)
	for _, of := range t.said {
		delete(of, name)
	}
}

// Forget drops what is too old to count.
func (t *Times) Forget(now time.Time) {
	for from, of := range t.said {
		for to, s := range of {
			if _, known := s.shortest(now); !known {
				delete(of, to)
			}
		}
		if len(of) == 0 {
			delete(t.said, from)
		}
	}
}

func (s *samples) shortest(now time.Time) (shortest time.Duration, known bool) {
	for i, rtt := range s.rtt {
		if rtt > 0 && now.Sub(s.at[i]) < MaxAge && (!known || rtt < shortest) {
			shortest, known = rtt, true
		}
	}
	return shortest, known
}

// count returns how many measurements of one node by another are remembered.
func (t *Times) count(from, to string) (times int) {
	s := t.said[from][to]
	if s == nil {
		return 0
	}
	for _, rtt := range s.rtt {
		times += rank(rtt > 0)
	}
	return times
}

// age returns how long ago a node last measured another; MaxAge if it has not.
func (t *Times) age(from, to string, now time.Time) time.Duration {
	s := t.said[from][to]
	if s == nil {
		return MaxAge
	}
	last := (s.next + remembered - 1) % remembered
	return min(now.Sub(s.at[last]), MaxAge)
}
