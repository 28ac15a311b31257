package reshape

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// trial is a move lower that has yet to show its use: whether the agents that the moved one fed get more from the one above.
type trial struct {
	moved string
	rate  uint64          // how much the agent took per second
	gave  uint64          // how much the agent above gave to all that it fed
	heirs map[string]bool // the agents that it fed
	judge time.Time

	began Flows // of the children of the agent above, when the move was over
}

// OnTrial reports whether it has yet to be found out whether an agent that moved lower is slow.
func (w *Watch) OnTrial(name string) bool {
	for _, trial := range w.trials {
		if trial.moved == name {
			return true
		}
	}
	return false
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

// begin notes what the children of the agent above have now. It waits until the move is over: a child with another parent is
// still opening its link.
func (t *trial) begin(children []string, flows Flows, now time.Time) {
	t.began = make(Flows, len(children))
	if soonest := now.Add(settle / 2); t.judge.Before(soonest) {
		t.judge = soonest
	}
	for _, child := range children {
		t.began[child] = flows[child]
	}
}

// conclude says which agent is slow: the one that moved, if an agent that it fed takes more and no other gets less for that;
// otherwise the one above.
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
