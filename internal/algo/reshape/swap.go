package reshape

import (
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// swap notes that an agent, from which several children took little, has changed places with one of
// them. That child is fed by another parent now: if it takes more there, the agent gives slowly.
type swap struct {
	with  string
	rate  uint64 // at which the child took
	best  uint64 // the highest rate at which the child has taken since
	judge time.Time
}

// judgeSwaps returns what becomes of an agent that has changed places, again until it has moved.
func (w *Watch) judgeSwaps(t *tree.Tree, flows Flows, now time.Time) (move Move, found bool) {
	for _, name := range slices.Sorted(maps.Keys(w.swaps)) {
		swap := w.swaps[name]
		swap.best = max(swap.best, flows[swap.with].Rate) // before the child has everything, when its rate falls
		if now.Before(swap.judge) {
			continue
		}
		if parent, _ := t.Parent(name); parent != swap.with {
			delete(w.swaps, name)
			continue // somebody has moved for another reason
		}
		move = Move{Why: TakesSlowly, Node: name, Parent: swap.with, Rate: swap.rate, Showed: swap.best}
		if isBetter(move.Showed, swap.rate) {
			move.Why = GivesSlowly
			w.noteSlow(name, slowness{rate: swap.rate})
		}
		return move, true
	}
	return Move{}, false
}
