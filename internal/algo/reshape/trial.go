package reshape

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// trial is a move lower whose use is to be seen: whether those that the agent fed get more from the one above.
type trial struct {
	moved string
	rate  uint64          // that it took
	gave  uint64          // what the one above gave to all that it fed
	heirs map[string]bool // those that the agent fed
	judge time.Time

	began Flows // when the move was over, of those whom the one above feeds now
}

// judge finds out what moves were good for.
func (w *Watch) judge(t *tree.Tree, flows Flows, now time.Time) {
	for parent, trial := range w.trials {
		switch children := t.Children(parent); {
		case trial.began == nil:
			trial.begin(children, flows, now)
		case !now.Before(trial.judge):
			delete(w.trials, parent)
			w.conclude(parent, trial, children, flows)
		}
	}
}

// begin notes what those have whom the agent above feeds now. Not before the move: who has another parent is opening
// its link.
func (t *trial) begin(children []string, flows Flows, now time.Time) {
	t.began = make(Flows, len(children))
	if soonest := now.Add(settle / 2); t.judge.Before(soonest) {
		t.judge = soonest
	}
	for _, child := range children {
		t.began[child] = flows[child]
	}
}

// conclude says who is slow: the agent that moved, if one that it fed takes more and no other gets less for it, or
// the one above.
func (w *Watch) conclude(parent string, t *trial, children []string, flows Flows) {
	var best, beside, gives uint64
	for _, child := range children {
		rate := flows[child].since(t.began[child])
		gives += rate
		if t.heirs[child] {
			best = max(best, rate)
		} else {
			beside = max(beside, rate)
		}
	}
	switch {
	case isBetter(best, t.rate) && gives >= t.gave+max((best-t.rate)/2, t.gave/4): // what is measured errs by a fifth
		w.noteSlow(t.moved, slowness{rate: t.rate, parent: parent})
	case isBetter(w.fed[parent], best): // it gave more: the next is slow itself
	case !isBetter(beside, t.rate):
		w.limits[parent] = max(best, t.rate)
	}
}

// since returns the rate at which a node has got more since it was so far; 0 if that is not known.
func (f Flow) since(earlier Flow) uint64 {
	passed := f.At.Sub(earlier.At)
	if earlier.At.IsZero() || passed <= 0 {
		return 0
	}
	return uint64(float64(f.Bytes-min(f.Bytes, earlier.Bytes)) / passed.Seconds())
}
