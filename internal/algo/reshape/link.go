package reshape

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// link leads from an agent to a child that is an agent and feeds agents itself.
type link struct {
	parent, child string
	from, to      Flow
	beside        uint64 // the highest rate among the other agents that the parent feeds
	gives         uint64 // the rate at which the parent gives to all that it feeds, members too
	share         uint64 // the parent's uplink divided by the agents that it feeds; 0 if the uplink is not known
}

// linkTo returns the link to an agent from its parent, or nil if the parent is no agent or the child feeds no agents.
func linkTo(t *tree.Tree, child string, flows Flows) *link {
	name, _ := t.Parent(child)
	parent, _ := t.Node(name)
	if parent.Kind != tree.Agent || len(agents(t, child)) == 0 {
		return nil
	}
	l := &link{parent: name, child: child, from: flows[name], to: flows[child]}
	fed := agents(t, name)
	for _, other := range fed {
		if other != child {
			l.beside = max(l.beside, flows[other].Rate)
		}
	}
	for _, other := range t.Children(name) {
		l.gives += flows[other].Rate
	}
	l.share = parent.Uplink / uint64(len(fed))
	return l
}

// agents returns the agents that a node feeds.
func agents(t *tree.Tree, name string) (fed []string) {
	for _, child := range t.Children(name) {
		if node, _ := t.Node(child); node.Kind == tree.Agent {
			fed = append(fed, child)
		}
	}
	return fed
}

// isKnown reports whether the child has said how fast it gets more, and both have just said how far they are: if one is silent,
// it only seems to be behind, or the other to be.
func (l *link) isKnown(now time.Time) bool {
	return l.to.Rate > 0 && l.from.isFresh(now) && l.to.isFresh(now)
}

// isBehind reports whether much waits for the child, and much is left.
func (l *link) isBehind(length uint64) bool {
	left := l.from.Bytes + l.to.Rate*uint64(minLeft/time.Second)
	if length > 0 {
		left = length - min(length, l.to.Bytes)
	}
	return l.waits() >= minBehind && l.lasts(l.waits()) >= minWait && l.lasts(left) >= minLeft
}

// waits returns how much the parent has that the child has not.
func (l *link) waits() uint64 { return l.from.Bytes - min(l.from.Bytes, l.to.Bytes) }

// lasts returns how long so many bytes take at the child's rate.
func (l *link) lasts(bytes uint64) time.Duration {
	return time.Duration(float64(bytes) / float64(l.to.Rate) * float64(time.Second))
}
