package reshape

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// slowness describes how slow an agent turned out to be.
type slowness struct {
	rate   uint64    // how much it took, or gave, per second
	parent string    // the agent of which it took so little; empty if it gave so little itself
	faster time.Time // since when it takes more of another; zero if it does not
}

// Slow returns the agents that were found to be slow since it was last called, and their rates: they took less than the next agent in
// their place, or gave less than another did. A rate of 0 says that an agent was not slow after all.
func (w *Watch) Slow() map[string]uint64 {
	news := w.news
	w.news = map[string]uint64{}
	return news
}

func (w *Watch) noteSlow(name string, is slowness) { w.slow[name], w.news[name] = &is, is.rate }

// disprove finds agents that take clearly more of another agent than of the one below which they were slow: the path from there
// was slow, or that agent gave little.
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
