package tree

import (
	"fmt"
	"strings"
	"time"
)

// FanOutError says that there are too few agents for the given fan-out limit.
type FanOutError struct {
	Cluster string // where; empty if it is the whole tree, or a cluster without label
	Limit   int
	Places  int // how many nodes the agents there can feed
	Nodes   int // how many they would have to feed
}

// Error tells what does not fit where.
func (e *FanOutError) Error() string {
	where := "the tree"
	if e.Cluster != "" {
		where = fmt.Sprintf("cluster %q", e.Cluster)
	}
	return fmt.Sprintf("tree: the agents of %s have room for %d nodes at a fan-out limit of %d, and %d need it", where, e.Places, e.Limit, e.Nodes)
}

// LatencyError says that a member is farther from the sender than the bound allows.
type LatencyError struct {
	Path    []string // the worst path, from the sender to the member
	Latency Latency
	Limit   time.Duration
}

// Error names the path that is too long.
func (e *LatencyError) Error() string {
	return fmt.Sprintf("tree: %v from the sender over %s, and the limit is %v", e.Latency, strings.Join(e.Path, " > "), e.Limit)
}

// String returns the time; +1?, +2? and so on tell how many hops are missing in it.
func (l Latency) String() string {
	if l.Unmeasured == 0 {
		return l.Measured.String()
	}
	return fmt.Sprintf("%v+%d?", l.Measured, l.Unmeasured)
}

// CheckLatency returns a *LatencyError if the tree breaks the latency bound it was made
// for. Build never returns such a tree. BuildLate, With, Without and Elsewhere may, because a delivery that goes on
// late is better than one that ends; so may Measured, as a path may turn out to be too long.
func (t *Tree) CheckLatency() error {
	if late := t.breach(); late != nil {
		return late
	}
	return nil
}

// breach returns by which path the tree breaks its latency bound; nil if it keeps it.
func (t *Tree) breach() *LatencyError {
	if t.bound.MaxLatency == 0 {
		return nil
	}
	worst, latency := t.worst()
	if latency.Measured <= t.bound.MaxLatency {
		return nil
	}
	return &LatencyError{Path: t.path(worst), Latency: latency, Limit: t.bound.MaxLatency}
}

// stillKeeps returns an error if the tree breaks a latency bound that an earlier one kept.
func (t *Tree) stillKeeps(earlier *Tree) error {
	if err := t.CheckLatency(); err != nil && earlier.CheckLatency() == nil {
		return err
	}
	return nil
}

// worst returns the member with the longest measured time; of several, the first by name.
func (t *Tree) worst() (worst int, longest Latency) {
	ways := t.ways()
	for at, p := range t.all() {
		path, _ := ways.to(at)
		latency := path.latency
		if p.node.Kind != Member || latency.Measured < longest.Measured {
			continue
		}
		if latency.Measured > longest.Measured || p.node.Name < t.at(worst).node.Name {
			worst, longest = at, latency
		}
	}
	return worst, longest
}
