package parallel

import (
	"math"
	"time"
)

const (
	// gamma is the share of the present connections with which a search begins (003 Table I: γ).
	gamma = 0.5
	// xi is the safety coefficient (003 Table I: ξ).
	xi = 0.95
	// standardRTT is "baseline of RTT for normalizing RTT value" (003 §III-B: RTT_std).
	standardRTT = 100 * time.Millisecond
)

// Search finds how many connections a client's upload to a gathering server should have (003
// §III-B). Every half second Step takes what was seen; its answer is tried until the next step.
//
//	                    meets its target, or its window is what holds it
//	       ┌───────────────────────────────────────────────────────────────┐
//	       ▼                                                               │
//	(I) at rest ─▶ (II) N·γ ─▶ (III) N+α ─▶ (IV) how is it? ─┬─ rising ─▶ (VI) new α, β ─▶ (III)
//	                                           │             └─ falling ─▶ (V) N·β ─▶ (VI)
//	                                           └ falling with α = 1 after it rose: back, at rest
type Search struct {
	connections, before int // N_n and N_b
	added               int // α
	searches, rose      bool
	was                 float64 // the throughput before the last change, to compare with
}

// Seen is what was seen of a client's upload.
type Seen struct {
	Target, Throughput float64 // T_t and T_n, in bytes per second
	Window             float64 // W_n, bytes
	RTT                time.Duration
	// Most is how many connections the client may have; zero stands for the constant Most.
	Most int
}

// NewSearch returns the search for a client that has some connections now.
func NewSearch(connections int) *Search {
	return &Search{connections: min(max(1, connections), Most)}
}

// Connections returns how many connections the client should have.
func (s *Search) Connections() int { return s.connections }

// Estimated is T_e: the throughput that the window allows if nothing else is the bottleneck (eq.
// 2). The printed equation divides by 8, though kilobytes per millisecond have to be multiplied by
// 8 to become megabits per second; with bytes per second neither is needed.
func (e Seen) Estimated() float64 {
	if e.RTT <= 0 {
		return math.Inf(1)
	}
	return e.Window / e.RTT.Seconds()
}

// Step takes what was seen with the present connections, and returns how many there should be next.
func (s *Search) Step(seen Seen) int {
	if seen.Most <= 0 || seen.Most > Most {
		seen.Most = Most
	}
	switch {
	case seen.Throughput >= seen.Target: // (I), and (IV): "if it satisfies target throughput"
		s.rest()
	case s.searches:
		s.tried(seen)
	case seen.Throughput < xi*seen.Estimated():
		s.begin(seen)
	}
	s.connections = min(max(1, s.connections), seen.Most)
	return s.connections
}

func (s *Search) rest() { s.searches, s.rose = false, false }

// begin is (II): "Initialize the number of connections by multiplying N_n" by γ.
func (s *Search) begin(seen Seen) {
	s.searches, s.rose = true, false
	s.connections = int(gamma * float64(s.connections))
	s.add(seen)
}

// add is (III), with a new α.
func (s *Search) add(seen Seen) {
	s.was, s.before, s.added = seen.Throughput, s.connections, alpha(seen)
	s.connections += s.added
}

// alpha is eq. 3: "α ← max(1, [T_t/T_n * RTT/RTT_std])".
func alpha(seen Seen) int {
	added := seen.Target / seen.Throughput * (seen.RTT.Seconds() / standardRTT.Seconds())
	if math.IsNaN(added) || added > float64(seen.Most) {
		return seen.Most
	}
	return max(1, int(added))
}

// beta is eq. 4: "β ← max(N_b/N_n, T_n/T_t)".
func (s *Search) beta(seen Seen) float64 {
	return max(float64(s.before)/float64(max(1, s.connections)), seen.Throughput/seen.Target)
}

// tried is (IV) to (VI), for a throughput below the target.
func (s *Search) tried(seen Seen) {
	rises := seen.Throughput > s.was
	switch {
	case !rises && s.added == 1 && s.rose:
		s.connections = s.before
		s.rest()
		return
	case !rises:
		s.connections = max(1, int(s.beta(seen)*float64(s.connections)))
	}
	s.rose = rises
	s.add(seen)
}
