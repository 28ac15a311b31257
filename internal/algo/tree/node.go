package tree

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Kind is what a node does in a tree.
type Kind uint8

// A member receives and feeds nobody, or is the sender; an agent relays.
const (
	Member Kind = iota
	Agent
)

// String returns the kind's word.
func (k Kind) String() string {
	if k == Agent {
		return "agent"
	}
	return "member"
}

// Node is a place's occupant in a tree: the sender, a member or an agent.
type Node struct {
	Name    string // unique among agents and members of the delivery
	Kind    Kind
	Cluster string // the label of its cluster, ZONE or ZONE/RACK; nodes with an empty label share no cluster
	Uplink  uint64 // capacity in bytes per second; 0 is unknown and counts as ordinary Ethernet
	Transit bool   // of an agent: it is to be used although it is near no member
	Agent   string // of a member: the agent beside it, which feeds it without using a link; it may not be in the tree
}

// Stronger orders nodes: those that belong higher in a tree come first.
func Stronger(a, b Node) int {
	return cmp.Or(cmp.Compare(b.Capacity(), a.Capacity()), cmp.Compare(a.Name, b.Name))
}

// assumedUplink is an agent's uplink where it is not known.
const assumedUplink = 125_000_000

// Capacity returns how many bytes per second an agent is taken to send.
func (n Node) Capacity() uint64 { return cmp.Or(n.Uplink, assumedUplink) }

// Bound is what a tree has to keep within, and what it is built by.
type Bound struct {
	// MaxLatency is the longest measured time from the sender to a member; 0 means no limit. Hops
	// that were not measured do not count.
	MaxLatency time.Duration
	// FanOut is the most children that an agent may feed, not counting the members beside it. A
	// limit that is given is never exceeded. 0 leaves it to the load; what suits that is raised as
	// little as needed where agents are too few or a path would be too long. A sender without
	// agents feeds all members itself.
	FanOut int
	// Load is what the tree is to carry.
	Load Load
	// RTT is what was measured.
	RTT RTTs
}

// Pair names two nodes, or two clusters, in either order.
type Pair struct{ A, B string }

// RTTs are measured round-trip times; any may be missing. The time between two nodes goes before
// that between their clusters. The pair of a cluster with itself is the time between two of its
// nodes. Where both orders of a pair are given, the larger time counts.
type RTTs struct {
	Nodes    map[Pair]time.Duration
	Clusters map[Pair]time.Duration
	// Version identifies the times: RTTs with the same version are the same. 0 means that there is none.
	Version uint64

	shared *distances // what trees make of them, if that is made already
}

// Shared returns the same RTTs with what trees make of them made once, for all trees that are given these. The maps must not be changed any more.
func (r RTTs) Shared() RTTs {
	if r.shared == nil {
		r.shared = measure(r)
	}
	return r
}

// check returns all that is wrong with what Build was given. The RTTs are shared.
func check(sender string, nodes []Node, bound Bound) error {
	var problems []error
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("tree: "+format, args...))
	}
	seen := make(map[string]Kind, len(nodes))
	for _, node := range nodes {
		if node.Name == "" {
			report("a node without name")
		}
		if _, twice := seen[node.Name]; twice {
			report("two nodes are named %q", node.Name)
		}
		seen[node.Name] = node.Kind
	}
	if kind, known := seen[sender]; !known {
		report("the sender %q is not among the nodes", sender)
	} else if kind != Member {
		report("the sender %q is not a member", sender)
	}
	if bound.FanOut < 0 {
		report("the fan-out limit %d is negative", bound.FanOut)
	}
	if bound.MaxLatency < 0 {
		report("the latency limit %v is negative", bound.MaxLatency)
	}
	return errors.Join(append(problems, bound.RTT.shared.wrong)...)
}

func (r RTTs) check() error {
	var worst *Pair
	for _, times := range []map[Pair]time.Duration{r.Nodes, r.Clusters} {
		for pair, rtt := range times {
			if rtt < 0 && (worst == nil || cmp.Or(cmp.Compare(pair.A, worst.A), cmp.Compare(pair.B, worst.B)) < 0) {
				worst = &pair
			}
		}
	}
	if worst == nil {
		return nil
	}
	return fmt.Errorf("tree: the RTT between %q and %q is negative", worst.A, worst.B)
}
