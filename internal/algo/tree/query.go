package tree

import (
	"slices"
)

// Sender returns the sender's name.
func (t *Tree) Sender() string { return t.places[0].node.Name }

// Len returns how many nodes the tree has, the sender included.
func (t *Tree) Len() int { return len(t.places) }

// Node returns the node of a name.
func (t *Tree) Node(name string) (Node, bool) {
	at, known := t.index[name]
	if !known {
		return Node{}, false
	}
	return t.places[at].node, true
}

// Names returns all nodes, each after its parent.
func (t *Tree) Names() []string {
	names := make([]string, 0, len(t.places))
	for _, at := range t.topDown() {
		names = append(names, t.places[at].node.Name)
	}
	return names
}

func (t *Tree) topDown() []int {
	order := append(make([]int, 0, len(t.places)), 0)
	for next := 0; next < len(order); next++ {
		order = append(order, t.places[order[next]].children...)
	}
	return order
}

// Parent returns who feeds a node; nobody feeds the sender or a node that is not in the tree.
func (t *Tree) Parent(name string) (parent string, fed bool) {
	at, known := t.index[name]
	if !known || t.places[at].parent == none {
		return "", false
	}
	return t.places[t.places[at].parent].node.Name, true
}

// Children returns whom a node feeds, in the order they were placed.
func (t *Tree) Children(name string) []string {
	at, known := t.index[name]
	if !known {
		return nil
	}
	return t.names(t.places[at].children)
}

func (t *Tree) names(places []int) []string {
	var names []string
	for _, at := range places {
		names = append(names, t.places[at].node.Name)
	}
	return names
}

// Path returns the nodes from the sender to the named one, both included; nil if it is not
// in the tree.
func (t *Tree) Path(name string) []string {
	at, known := t.index[name]
	if !known {
		return nil
	}
	return t.path(at)
}

func (t *Tree) path(at int) []string {
	var path []string
	for ; at != none; at = t.places[at].parent {
		path = append(path, t.places[at].node.Name)
	}
	slices.Reverse(path)
	return path
}

// Depth returns the number of hops from the sender to the node farthest from it.
func (t *Tree) Depth() int {
	deepest := 0
	for i := range t.places {
		deepest = max(deepest, t.places[i].depth)
	}
	return deepest
}

// Latency returns the estimated time from the sender to a node.
func (t *Tree) Latency(name string) (Latency, bool) {
	at, known := t.index[name]
	if !known {
		return Latency{}, false
	}
	return t.places[at].latency, true
}

// Entered returns, for each cluster with a label, how many of its nodes are fed from
// outside of it. Build enters a cluster that has agents once, and the sender's not at all
// if its ingress is there; one without agents is entered for each of its members.
func (t *Tree) Entered() map[string]int {
	entered := map[string]int{}
	for i := range t.places {
		p := &t.places[i]
		if p.node.Cluster == "" {
			continue
		}
		entered[p.node.Cluster] += rank(p.parent != none && t.places[p.parent].node.Cluster != p.node.Cluster)
	}
	return entered
}

// rank is 1 for true, so that facts can be counted and ordered.
func rank(fact bool) int {
	if fact {
		return 1
	}
	return 0
}
