// Package reshape decides which agent of a delivery's tree moves lower while data flows.
//
// "When data accumulation occurs, the host with the largest total latency among all its
// direct clients is moved to a lower level in the multicast tree" (002 §3.1.2): it then
// holds up nobody but itself. Only an agent that feeds others is moved, and only where its
// place would serve these better, which is so if the agent above it gives another more, or
// could give more by its uplink. Where neither is known, one move tells: if the next one
// gets no more, it is the agent above that is the limit, and nobody moves below it again.
//
// A move is damped: what waits for an agent must take a while at its rate, at two looks,
// with much left; after a move those around it are left alone until they have shown what
// they do, and the one that moved for much longer.
package reshape

import (
	"maps"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

const (
	// minWait is how long what waits for an agent must take, at its rate.
	minWait = 2 * time.Second
	// minBehind is how much must wait at least.
	minBehind = 1 << 20
	// minLeft is how long the rest must take: a delivery that is about to end is left alone.
	minLeft = 3 * time.Second
	// look is how often to look while data flows, and how long an agent must be behind.
	look = time.Second
	// settle is how long the neighbours of one that moved are left alone at least: until minBehind
	// has come at the rate that was too slow.
	settle = 4 * time.Second
	// rest is how long one that moved is.
	rest = 30 * time.Second
	// slower is how much less than another in its place an agent takes that moves.
	slower = 2
	// better is how much more the next in its place takes, if the move was right.
	better = 1.5
)

// Flow is how a delivery goes on at one agent.
type Flow struct {
	Bytes uint64 // it has
	Rate  uint64 // at which it lately got more, per second; 0 if that is not known
}

// Flows are those of the agents that have told, by their names in the tree.
type Flows map[string]Flow

// Move is an agent that is to move lower, and why.
type Move struct {
	Node, Parent string
	Rate         uint64 // at which it takes what the parent has, per second
	Waiting      uint64 // how much waits there for it
	Could        uint64 // the rate that the parent has for another; 0 if that is not known
	Seen         bool   // another has that rate; else it is a share of the uplink
}

// Watch looks at one delivery.
type Watch struct {
	behind map[string]time.Time // agents that are behind, and since when
	quiet  map[string]time.Time // those that are left alone, and until when
	trials map[string]*trial    // moves that are not judged yet, by the agent above
	limits map[string]uint64    // of agents that are the limit: what they gave to the one below
	slow   map[string]uint64    // agents that moved rightly: what they took
}

// trial is a move whose use is to be seen.
type trial struct {
	moved string
	rate  uint64          // that it took
	heirs map[string]bool // those that it fed
	best  uint64          // that one of them takes in its place
	judge time.Time
}

// NewWatch returns one that has seen nothing.
func NewWatch() *Watch {
	return &Watch{
		behind: map[string]time.Time{}, quiet: map[string]time.Time{},
		trials: map[string]*trial{}, limits: map[string]uint64{}, slow: map[string]uint64{},
	}
}

// Next returns the agent that is to move lower, if there is one, and when to look again:
// never if nobody feeds another that feeds others. A length of 0 is unknown.
func (w *Watch) Next(t *tree.Tree, flows Flows, length uint64, now time.Time) (move Move, found bool, due time.Time) {
	w.judge(t, flows, now)
	var slowest *link
	for _, name := range t.Names() {
		l := linkTo(t, name, flows)
		if l == nil {
			continue
		}
		due = now.Add(look)
		if l.isKnown() && w.holdsUp(l, length, now) && (slowest == nil || l.to.Rate < slowest.to.Rate) {
			slowest = l
		}
	}
	if slowest == nil {
		return Move{}, false, due
	}
	return slowest.move(), true, due
}

// holdsUp tells whether an agent holds up those that it feeds, and another in its place would not.
func (w *Watch) holdsUp(l *link, length uint64, now time.Time) bool {
	if !l.isBehind(length) {
		delete(w.behind, l.child)
		return false
	}
	if w.behind[l.child].IsZero() {
		w.behind[l.child] = now
	}
	if now.Sub(w.behind[l.child]) < look || now.Before(w.quiet[l.child]) || now.Before(w.quiet[l.parent]) {
		return false
	}
	could := max(l.beside, l.share, w.limits[l.parent])
	return could == 0 || could/slower >= l.to.Rate
}

// Moved notes that an agent has moved from one tree to another.
func (w *Watch) Moved(name string, before *tree.Tree, flows Flows, now time.Time) {
	parent, _ := before.Parent(name)
	shown := time.Duration(minBehind / float64(max(flows[name].Rate, 1)) * float64(time.Second))
	t := &trial{moved: name, rate: flows[name].Rate, heirs: map[string]bool{}, judge: now.Add(min(max(shown, settle), rest))}
	w.trials[parent] = t
	w.leave(name, now.Add(rest))
	w.leave(parent, t.judge)
	for _, heir := range before.Children(name) {
		t.heirs[heir] = true
		w.leave(heir, t.judge)
	}
}

// Stays notes that an agent cannot be moved, or was for another reason.
func (w *Watch) Stays(name string, now time.Time) { w.leave(name, now.Add(rest)) }

// leave leaves an agent alone for a while, and forgets how it did where it was.
func (w *Watch) leave(name string, until time.Time) {
	if until.After(w.quiet[name]) {
		w.quiet[name] = until
	}
	delete(w.behind, name)
}

// Slow returns the agents that took less than the next in their place, with the rate that
// they took.
func (w *Watch) Slow() map[string]uint64 { return maps.Clone(w.slow) }

// judge finds out what moves were good for.
func (w *Watch) judge(t *tree.Tree, flows Flows, now time.Time) {
	for parent, trial := range w.trials {
		for _, child := range t.Children(parent) {
			if trial.heirs[child] {
				trial.best = max(trial.best, flows[child].Rate)
			}
		}
		switch {
		case now.Before(trial.judge):
			continue
		case float64(trial.best) >= better*float64(trial.rate):
			w.slow[trial.moved] = trial.rate
		default:
			w.limits[parent] = max(trial.best, trial.rate)
		}
		delete(w.trials, parent)
	}
}
