package reshape

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// trial is a move lower whose use has still to show: do the agent's former children get more from the parent above?
type trial struct {
	moved string
	rate  uint64          // at which the agent took
	gave  uint64          // the rate at which the parent gave to all that it fed
	heirs map[string]bool // the agent's former children
	judge time.Time

	began Flows // the flows of the parent's children at the first look after the move
}

// judge finds out what past moves were good for.
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

// begin notes how much the parent's present children have. It does so only after the move, as a node with a new
// parent has to open its link first.
func (t *trial) begin(children []string, flows Flows, now time.Time) {
	t.began = make(Flows, len(children))
	if soonest := now.Add(settle / 2); t.judge.Before(soonest) {
		t.judge = soonest
	}
	for _, child := range children {
		t.began[child] = flows[child]
	}
}

// conclude decides what was slow. It was the agent that moved if one of its former children takes more, and not at
// the cost of the others; else it may be the parent.
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
	case isBetter(best, t.rate) && gives >= t.gave+max((best-t.rate)/2, t.gave/4): // rates are measured with an error of a fifth
		w.noteSlow(t.moved, slowness{rate: t.rate, parent: parent})
	case isBetter(w.fed[parent], best): // the parent has given more before: the next agent is slow itself
	case !isBetter(beside, t.rate):
		w.limits[parent] = max(best, t.rate)
	}
}

// since returns the rate at which a node has got more since an earlier flow; 0 if that is not known.
func (f Flow) since(earlier Flow) uint64 {
	passed := f.At.Sub(earlier.At)
	if earlier.At.IsZero() || passed <= 0 {
		return 0
	}
	return uint64(float64(f.Bytes-min(f.Bytes, earlier.Bytes)) / passed.Seconds())
}
