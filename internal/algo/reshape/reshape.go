// Package reshape decides which agent of a delivery's tree moves lower while data flows.
//
// "When data accumulation occurs, the host with the largest total latency among all its direct
// clients is moved to a lower level in the multicast tree" (002 §3.1.2): it then holds up nobody
// but itself. Only an agent that feeds others is moved, and only if another in its place would
// serve these better. That is so if the agent above it gives another child more, or could give more
// by its uplink. One move shows whether it is so. If the next agent in its place gets no more, and
// no agent that moved before got more either, nobody moves below that agent above again, whatever
// its uplink is said to be, unless another child there takes much more.
//
// Then either the agent above gives slowly, or both children take slowly. To find out, the next
// child changes places with the agent above for a while. If the child takes more there, the other
// goes to the bottom; else it goes back.
// they do, and the one that moved for much longer.
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
	// settle is the least time for which the neighbours of an agent that moved are left alone. It
	// takes longer if minBehind has not come by then at the rate that was too slow.
	settle = 4 * time.Second
	// rest is how long an agent that moved is left alone.
	rest = 30 * time.Second
	// heard is how long a report counts; agents repeat it every second.
	heard = 2 * time.Second
	// memory is how long the most that an agent took counts.
	memory = 10 * time.Minute
	// slower is by what factor an agent must take less than another would in its place, to be moved.
	slower = 2
	// better is by what factor the next agent in its place takes more if the move was right.
	better = 1.5
)

// Flow is the progress of a delivery at one agent or member.
type Flow struct {
	Bytes uint64    // how much it has
	At    time.Time // when it said so
	Rate  uint64    // at which it lately got more, in bytes per second; 0 if that is not known
}

// isFresh reports whether the flow was told just now.
func (f Flow) isFresh(now time.Time) bool { return now.Sub(f.At) <= heard }

// Flows holds the flows of the agents and members that have told them, by their names in the tree.
type Flows map[string]Flow

// Why says why an agent moves.
type Why int

// The reasons. Lags: the agent lags behind its parent, and goes lower. Tries: it changes places with
// its parent, which may give slowly. GivesSlowly: the former parent gives slowly indeed, and goes
// lower. TakesSlowly: it does not, and goes back to its place.
const (
	Lags Why = iota
	Tries
	GivesSlowly
	TakesSlowly
)

// Move is an agent that is to move, and why.
type Move struct {
	Why
	Node, Parent string // Parent feeds the node now
	Rate         uint64 // the rate at which the node takes what the parent has, in bytes per second; or gives, if it gives slowly
	Waiting      uint64 // for Lags: how much waits for the node
	Could        uint64 // for Lags: the rate that the parent has for another node; 0 if that is not known
	Seen         bool   // another node has that rate; else it is a share of the uplink
	Showed       uint64 // for GivesSlowly and TakesSlowly: the rate at which the agent that changed places with the node took
	Gave         uint64 // for Lags: the rate at which the parent gave to all that it feeds
}

// In returns the tree with the agent moved.
func (m Move) In(t *tree.Tree) (*tree.Tree, error) {
	if m.Why == Tries || m.Why == TakesSlowly {
		return t.Rise(m.Node)
	}
	return t.Lower(m.Node, m.Rate)
}

// Watch looks at one delivery.
type Watch struct {
	took   map[string]peak      // the most that agents took lately
	behind map[string]time.Time // agents that are behind, and since when
	quiet  map[string]time.Time // agents that are left alone, and until when
	trials map[string]*trial    // moves that are not judged yet, by the parent of the agent that moved
	limits map[string]uint64    // agents above that are the limit themselves, and what they gave to the agent below
	slow   map[string]*slowness // agents that were found to be slow, until that is disproved
	news   map[string]uint64    // what Slow has not returned yet
	fed    map[string]uint64    // for each parent, the most that any agent took of it that was then moved

	swaps    map[string]*swap // agents that have changed places with a child, until that is judged
	innocent map[string]bool  // agents for which a swap has shown that they do not give slowly
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

// NewWatch returns a Watch that has seen nothing.
func NewWatch() *Watch {
	return &Watch{
		took: map[string]peak{}, behind: map[string]time.Time{}, quiet: map[string]time.Time{},
		trials: map[string]*trial{}, limits: map[string]uint64{}, slow: map[string]*slowness{}, news: map[string]uint64{}, fed: map[string]uint64{},
		swaps: map[string]*swap{}, innocent: map[string]bool{},
	}
}

// Next returns the agent that is to move, if any, and when to look again; zero means never, as
// nobody feeds an agent that feeds agents. A length of 0 means that it is unknown.
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

// forget forgets agents that have gone, and that an agent is left alone when its time is over.
func (w *Watch) forget(flows Flows, now time.Time) {
	maps.DeleteFunc(w.took, func(name string, _ peak) bool { return flows[name].At.IsZero() })
	maps.DeleteFunc(w.behind, func(name string, _ time.Time) bool { return flows[name].At.IsZero() })
	maps.DeleteFunc(w.quiet, func(_ string, until time.Time) bool { return !now.Before(until) })
}

// holdsUp reports whether an agent holds up those that it feeds, and already did so at an earlier look. An agent
// that takes about as much as its parent took at its best does not, even if much waits for it because something
// else held it up.
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

// relief returns the move that relieves a link, if there is one. The agent that lags moves if another would take
// more in its place, or nobody knows. Else it changes places with its parent, if the parent may be what gives
// slowly.
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
	switch move.Why {
	case Lags:
		t := &trial{moved: move.Node, rate: move.Rate, gave: move.Gave, heirs: map[string]bool{}, judge: until}
		w.trials[move.Parent] = t
		w.fed[move.Parent] = max(w.fed[move.Parent], move.Rate)
		for _, heir := range before.Children(move.Node) {
			t.heirs[heir] = true
			w.leave(heir, until)
		}
		w.leave(move.Node, now.Add(rest))
		w.leave(move.Parent, until)
	case Tries:
		w.swaps[move.Parent] = &swap{with: move.Node, rate: move.Rate, judge: until}
		w.leave(move.Node, now.Add(rest))
		w.leave(move.Parent, until)
	case GivesSlowly, TakesSlowly:
		w.leave(move.Node, now.Add(rest))
	}
}

// Stays notes that an agent cannot be moved, or has moved for another reason.
func (w *Watch) Stays(name string, now time.Time) { w.leave(name, now.Add(rest)) }

// leave leaves an agent alone until a time, and forgets that it was behind.
func (w *Watch) leave(name string, until time.Time) {
	if until.After(w.quiet[name]) {
		w.quiet[name] = until
	}
	delete(w.behind, name)
}

// isBetter reports whether a rate is clearly higher than another.
func isBetter(rate, than uint64) bool { return float64(rate) >= better*float64(than) }
