package reshape

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// slowness is how slow an agent turned out to be.
type slowness struct {
	rate   uint64    // that it took, or gave
	parent string    // of whom it took so little; empty of one that gave so little
	faster time.Time // since when it takes more of another; zero if it does not
}

// Slow returns the agents that were found to be slow since it was last asked: that took less than the next in their place, or
// gave less than another did, with the rate at which they did; 0 is that of one which was not slow after all.
func (w *Watch) Slow() map[string]uint64 {
	news := w.news
	w.news = map[string]uint64{}
	return news
}

func (w *Watch) noteSlow(name string, is slowness) { w.slow[name], w.news[name] = &is, is.rate }

// disprove finds out who takes clearly more of another than of the one for whom it was slow: it was the way from there that
// was, or that one gave it little.
func (w *Watch) disprove(t *tree.Tree, flows Flows, now time.Time) {
	for name, is := range w.slow {
		parent, fed := t.Parent(name)
		switch {
		case is.parent == "":
		case !fed || parent == is.parent || !flows[name].isFresh(now) || !isBetter(flows[name].Rate, is.rate):
			is.faster = time.Time{}
		case is.faster.IsZero():
			is.faster = now
		case now.Sub(is.faster) >= settle:
			delete(w.slow, name)
			w.news[name] = 0
		}
	}
}
