package reshape

import (
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// swap is that an agent, of which several took little, has changed places with one of them. That one is
// fed by another now: if it takes more, the agent gives slowly.
type swap struct {
	with  string
	rate  uint64 // that it took
	best  uint64 // that it takes since
	judge time.Time
}

// judgeSwaps returns what becomes of an agent that has changed places, again until it has moved.
func (w *Watch) judgeSwaps(t *tree.Tree, flows Flows, now time.Time) (move Move, found bool) {
	for _, name := range slices.Sorted(maps.Keys(w.swaps)) {
		swap := w.swaps[name]
		swap.best = max(swap.best, flows[swap.with].Rate) // before it has all
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
