package tree

import (
	"maps"
	"slices"
	"time"
)

// Tree is who is fed by whom. It does not change.
type Tree struct {
	places []place        // the sender first
	index  map[string]int // by name
	bound  Bound
	fanOut int // the limit that is given, or suits the load
	dist   *distances
}

// place is where a node sits.
type place struct {
	node      Node
	id, label uint32 // its numbers in the distances
	parent    int    // none at the sender, and while it is not placed
	children  []int
	depth     int
	cost      time.Duration // of the path from the sender, hops without measurement included
	latency   Latency
}

const none = -1

// Latency is the time from the sender to a node, without any of the agents' own.
type Latency struct {
	Measured   time.Duration // over the hops with a measured RTT
	Unmeasured int           // how many hops have none
}

// unplaced returns the nodes before any of them is fed; the sender first, then the others
// by strength.
func unplaced(sender string, nodes []Node, bound Bound, dist *distances) *Tree {
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b Node) int {
		if a.Name == sender || b.Name == sender {
			return rank(b.Name == sender) - rank(a.Name == sender)
		}
		return Stronger(a, b)
	})
	t := &Tree{index: make(map[string]int, len(nodes)), bound: bound, fanOut: bound.fanOut(nodes), dist: dist}
	for _, node := range sorted {
		t.add(node)
	}
	for at := range t.places {
		t.goBeside(at)
	}
	return t
}

// beside returns the agent that feeds a member over no link, or none.
func (t *Tree) beside(member int) int {
	at, known := t.index[t.places[member].node.Agent]
	if !known || !t.agent(at) || t.agent(member) {
		return none
	}
	return at
}

// goBeside has a member be of the cluster of the agent beside it.
func (t *Tree) goBeside(member int) {
	if agent := t.beside(member); agent != none {
		p := &t.places[member]
		p.node.Cluster, p.label = t.places[agent].node.Cluster, t.places[agent].label
	}
}

// links returns how many a node feeds over links.
func (t *Tree) links(at int) (count int) {
	for _, child := range t.places[at].children {
		count += rank(t.beside(child) != at)
	}
	return count
}

func (t *Tree) add(node Node) int {
	at := len(t.places)
	t.index[node.Name] = at
	t.places = append(t.places, place{node: node, id: t.dist.ids[node.Name], label: t.dist.labels[node.Cluster], parent: none})
	return at
}

// attach makes one node the parent of another, whatever that one feeds included.
func (t *Tree) attach(child, parent int) {
	t.places[child].parent = parent
	t.places[parent].children = append(t.places[parent].children, child)
	t.settle(child)
}

// settle computes anew what follows from a node's parent.
func (t *Tree) settle(at int) {
	p := &t.places[at]
	if p.parent != none {
		up := &t.places[p.parent]
		hop, unmeasured := t.dist.hop(up, p)
		p.depth, p.cost = up.depth+1, up.cost+hop
		p.latency = Latency{up.latency.Measured + hop*time.Duration(1-unmeasured), up.latency.Unmeasured + unmeasured}
	}
	for _, child := range p.children {
		t.settle(child)
	}
}

func (t *Tree) clone() *Tree {
	copied := &Tree{places: slices.Clone(t.places), index: maps.Clone(t.index), bound: t.bound, fanOut: t.fanOut, dist: t.dist}
	for i := range copied.places {
		copied.places[i].children = slices.Clone(copied.places[i].children)
	}
	return copied
}

func (t *Tree) agent(at int) bool { return t.places[at].node.Kind == Agent }

// Measured returns the same tree seen with other RTTs: its latencies, and what With and
// Without go by. Nobody moves.
func (t *Tree) Measured(rtt RTTs) *Tree {
	other := t.clone()
	other.bound.RTT, other.dist = rtt, measure(rtt)
	for i := range other.places {
		p := &other.places[i]
		p.id, p.label = other.dist.ids[p.node.Name], other.dist.labels[p.node.Cluster]
	}
	other.settle(0)
	return other
}
