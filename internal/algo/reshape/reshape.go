// Package reshape decides which agent of a delivery's tree moves lower while data flows.
//
// "When data accumulation occurs, the host with the largest total latency among all its
// direct clients is moved to a lower level in the multicast tree" (002 §3.1.2): it then
// holds up nobody but itself. Only an agent that feeds others is moved, and only if those
// would be served better in its place: because the agent above gives more to another of its children, or
// its uplink could give more. One move tells whether that is so: if the agent that takes the place gets no
// more, and none that moved before got more, nobody moves below the agent above again, whatever
// its uplink is said to be, unless another there takes much more.
//
// Then either the agent above gives slowly, or both below it take slowly. The next agent changes places
// with the one above for a while: if it takes more there, the other goes to the bottom; if not, it goes back.
//
// Moves are damped: what waits for an agent must take a while at its rate, at two looks,
// with much left. After a move the agents around it are left alone until they have shown what
// they do, and the agents that moved for much longer: only what ends a change of places comes sooner.
package reshape

import (
	"maps"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

const (
	// minWait is how long the bytes that wait for an agent must take at its rate.
	minWait = 2 * time.Second
	// minBehind is how many bytes must wait at least.
	minBehind = 1 << 20
	// minLeft is how long the rest must take at the agent's rate: a delivery that is about to end is left alone.
	minLeft = 3 * time.Second
	// look is the time between two looks while data flows, and how long an agent must be behind.
	look = time.Second
	// settle is how long the neighbours of an agent that moved are left alone at least: until minBehind
	// has come at the rate that was too slow.
	settle = 4 * time.Second
	// rest is how long the agent itself is left alone.
	rest = 30 * time.Second
	// heard is how long a report counts: agents report every second.
	heard = 2 * time.Second
	// memory is how long it counts what rate an agent once took.
	memory = 10 * time.Minute
	// slower is how much less an agent takes than another in its place would, if it is to move.
	slower = 2
	// better is how much more the next agent takes in its place, if the move was right.
	better = 1.5
)

// Flow is the progress of a delivery at one agent or member.
type Flow struct {
	Bytes uint64    // how much it has
	At    time.Time // when it said so
	Rate  uint64    // how much more it got per second of late; 0 if that is not known
}

// isFresh reports whether the agent said so just now.
func (f Flow) isFresh(now time.Time) bool { return now.Sub(f.At) <= heard }

// Flows are how agents and members say that they get on, by their names in the tree.
type Flows map[string]Flow

// Why says why an agent moves.
type Why int

// An agent goes lower because it lags behind the agent that feeds it. Or it changes places with that agent, which
// may be giving slowly: that goes lower if it does, and back to its place if it does not.
const (
	Lags Why = iota
	Tries
	GivesSlowly
	TakesSlowly
)

// Move is an agent that is to move, and why.
type Move struct {
	Why
	Node, Parent string // the agent, and the node that feeds it now
	Rate         uint64 // how much it takes of the parent per second; or gives, if it gives slowly
	Waiting      uint64 // how much waits for it, if it lags
	Could        uint64 // the rate that the parent has for another, if it lags; 0 if that is not known
	Seen         bool   // another takes at that rate; otherwise it is a share of the uplink
	Showed       uint64 // the rate at which the agent that changed places took, if that is why
	Gave         uint64 // the rate at which the parent gave to all that it feeds, if one of them lags
}

// In returns the tree with the agent moved.
func (m Move) In(t *tree.Tree) (*tree.Tree, error) {
	if m.Why == Tries || m.Why == TakesSlowly {
		return t.Rise(m.Node)
	}
	return t.Lower(m.Node, m.Rate)
}

// Moving returns the agents that move: both, if they change places. Those that get another feeder since theirs moves do not count.
func (m Move) Moving() []string {
	if m.Why == Tries || m.Why == TakesSlowly {
		return []string{m.Node, m.Parent}
	}
	return []string{m.Node}
}

// Watch looks at one delivery.
type Watch struct {
	took   map[string]peak      // the most that agents took lately
	behind map[string]time.Time // agents that are behind, and since when
	quiet  map[string]time.Time // agents that are left alone, and until when
	trials map[string]*trial    // moves that are not judged yet, by the agent above
	limits map[string]uint64    // of agents that are the limit: what they gave to the one below
	slow   map[string]*slowness // agents that moved rightly, until that is disproved
	news   map[string]uint64    // what Slow has not told yet
	fed    map[string]uint64    // the most that any agent that moved had taken of the agent above

	swaps    map[string]*swap // agents that have changed places with an agent that they fed, until that is judged
	innocent map[string]bool  // agents that do not give slowly, as a swap has shown
}

// peak is the most that an agent took, and when.
type peak struct {
	rate uint64
	at   time.Time
}

// after returns the peak when the agent has just taken at a rate.
func (p peak) after(rate uint64, now time.Time) peak {
	if rate >= p.rate || rate > 0 && now.Sub(p.at) >= memory {
		return peak{rate, now}
	}
	return p
}

// NewWatch returns a watch that has seen nothing.
func NewWatch() *Watch {
	return &Watch{
		took: map[string]peak{}, behind: map[string]time.Time{}, quiet: map[string]time.Time{},
		trials: map[string]*trial{}, limits: map[string]uint64{}, slow: map[string]*slowness{}, news: map[string]uint64{}, fed: map[string]uint64{},
		swaps: map[string]*swap{}, innocent: map[string]bool{},
	}
}

// Next returns the agent that is to move, if there is one, and when to look again: never if
// no agent feeds another that feeds others. A length of 0 is unknown.
func (w *Watch) Next(t *tree.Tree, flows Flows, length uint64, now time.Time) (move Move, found bool, due time.Time) {
	w.judge(t, flows, now)
	w.disprove(t, flows, now)
	if move, found = w.judgeSwaps(t, flows, now); found {
		return move, true, now.Add(look)
	}
	w.forget(flows, now)
	for name, flow := range flows {
		w.took[name] = w.took[name].after(flow.Rate, now)
	}
	if len(w.swaps) > 0 {
		due = now.Add(look)
	}
	for _, name := range t.Names() {
		l := linkTo(t, name, flows)
		if l == nil {
			continue
		}
		due = now.Add(look)
		if !l.isKnown(now) || !w.holdsUp(l, length, now) {
			continue
		}
		if relief, is := w.relief(l); is && (!found || relief.Rate < move.Rate) {
			move, found = relief, true
		}
	}
	return move, found, due
}

// forget forgets agents that have gone, and which agents are no longer to be left alone.
func (w *Watch) forget(flows Flows, now time.Time) {
	maps.DeleteFunc(w.took, func(name string, _ peak) bool { return flows[name].At.IsZero() })
	maps.DeleteFunc(w.behind, func(name string, _ time.Time) bool { return flows[name].At.IsZero() })
	maps.DeleteFunc(w.quiet, func(_ string, until time.Time) bool { return !now.Before(until) })
}

// holdsUp reports whether an agent holds up those that it feeds, and did so at the look before. An agent that takes as much as the
// agent above took at its best does not, even if much waits for it because something else held it up.
func (w *Watch) holdsUp(l *link, length uint64, now time.Time) bool {
	took := w.took[l.parent].rate
	if !l.isBehind(length) || took > 0 && !isBetter(took, l.to.Rate) {
		delete(w.behind, l.child)
		return false
	}
	if w.behind[l.child].IsZero() {
		w.behind[l.child] = now
	}
	return now.Sub(w.behind[l.child]) >= look && !now.Before(w.quiet[l.child]) && !now.Before(w.quiet[l.parent])
}

// relief returns the move that relieves a link, if there is one: another agent would take more in the place of the one
// that lags, or nobody knows whether it would; or the agent above may be giving slowly.
func (w *Watch) relief(l *link) (move Move, is bool) {
	limited := w.limits[l.parent] > 0
	if limited {
		l.share = 0 // whatever is said of its uplink
	}
	move = Move{
		Node: l.child, Parent: l.parent, Rate: l.to.Rate, Waiting: l.waits(),
		Could: max(l.beside, l.share), Seen: l.beside > 0 && l.beside >= l.share, Gave: l.gives,
	}
	if move.Could/slower >= l.to.Rate || move.Could == 0 && !limited {
		return move, true
	}
	move.Why = Tries
	return move, limited && !w.innocent[l.parent]
}

// Moved notes that an agent has moved from one tree to another.
func (w *Watch) Moved(move Move, before *tree.Tree, now time.Time) {
	shown := time.Duration(minBehind / float64(max(move.Rate, 1)) * float64(time.Second))
	until := now.Add(min(max(shown, settle), rest)) // by then it shows whether the move was right
	for _, name := range move.Moving() {
		w.leave(name, now.Add(rest)) // from all but the end of a swap
	}
	switch move.Why {
	case Lags:
		t := &trial{moved: move.Node, rate: move.Rate, gave: move.Gave, heirs: map[string]bool{}, judge: until}
		w.trials[move.Parent] = t
		w.fed[move.Parent] = max(w.fed[move.Parent], move.Rate)
		for _, heir := range before.Children(move.Node) {
			t.heirs[heir] = true
			w.leave(heir, until)
		}
		w.leave(move.Parent, until)
	case Tries:
		w.swaps[move.Parent] = &swap{with: move.Node, rate: move.Rate, judge: until}
	case GivesSlowly, TakesSlowly:
		delete(w.swaps, move.Node)
		if move.Why == TakesSlowly {
			w.innocent[move.Node] = true
		}
	}
}

// Stays notes that an agent cannot be moved, or was for another reason.
func (w *Watch) Stays(name string, now time.Time) {
	delete(w.swaps, name)
	w.leave(name, now.Add(rest))
}

// leave leaves an agent alone until a time, and forgets that it was behind.
func (w *Watch) leave(name string, until time.Time) {
	if until.After(w.quiet[name]) {
		w.quiet[name] = until
	}
	delete(w.behind, name)
}

// isBetter reports whether a rate is clearly more than another.
func isBetter(rate, than uint64) bool { return float64(rate) >= better*float64(than) }
