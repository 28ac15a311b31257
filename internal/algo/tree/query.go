package tree

import (
	"slices"
	"time"
)

// Sender returns the sender's name.
func (t *Tree) Sender() string { return t.at(0).node.Name }

// Len returns how many nodes the tree has, the sender included.
func (t *Tree) Len() int { return t.index.count }

// Node returns the node of a name.
func (t *Tree) Node(name string) (Node, bool) {
	at, known := t.index.find(name)
	if !known {
		return Node{}, false
	}
	return t.at(at).node, true
}

// Span returns what all hops cost together, and what the longest path to a member costs. A hop costs half of
// its round trip, or a pessimistic constant where that was not measured.
func (t *Tree) Span() (all, last time.Duration) {
	ways := t.ways()
	for at, p := range t.all() {
		if p.parent == none {
			continue
		}
		all += t.hop(p.parent, at)
		if path, _ := ways.to(at); p.node.Kind == Member {
			last = max(last, path.cost)
		}
	}
	return all, last
}

// Names returns all nodes, each after its parent.
func (t *Tree) Names() []string {
	names := make([]string, 0, t.Len())
	for _, at := range t.topDown() {
		names = append(names, t.at(at).node.Name)
	}
	return names
}

func (t *Tree) topDown() []int {
	order := append(make([]int, 0, t.Len()), 0)
	for next := 0; next < len(order); next++ {
		order = append(order, t.at(order[next]).children...)
	}
	return order
}

// Parent returns the node that feeds another; nobody feeds the sender, or a node that is not in the tree.
func (t *Tree) Parent(name string) (parent string, fed bool) {
	at, known := t.index.find(name)
	if !known || t.at(at).parent == none {
		return "", false
	}
	return t.at(t.at(at).parent).node.Name, true
}

// Children returns the nodes that a node feeds, in the order in which they were placed.
func (t *Tree) Children(name string) []string {
	at, known := t.index.find(name)
	if !known {
		return nil
	}
	return t.names(t.at(at).children)
}

func (t *Tree) names(places []int) []string {
	var names []string
	for _, at := range places {
		names = append(names, t.at(at).node.Name)
	}
	return names
}

// Path returns the nodes from the sender to the named one, both included; nil if it is not
// in the tree.
func (t *Tree) Path(name string) []string {
	at, known := t.index.find(name)
	if !known {
		return nil
	}
	return t.path(at)
}

func (t *Tree) path(at int) []string {
	var path []string
	for ; at != none; at = t.at(at).parent {
		path = append(path, t.at(at).node.Name)
	}
	slices.Reverse(path)
	return path
}

// Depth returns the number of hops from the sender to the node farthest from it.
func (t *Tree) Depth() int {
	deepest, ways := 0, t.ways()
	for at := range t.all() {
		path, _ := ways.to(at)
		deepest = max(deepest, path.depth)
	}
	return deepest
}

// Latency returns the estimated time from the sender to a node.
func (t *Tree) Latency(name string) (Latency, bool) {
	at, known := t.index.find(name)
	if !known {
		return Latency{}, false
	}
	ways := t.ways()
	path, _ := ways.to(at)
	return path.latency, true
}

// Entered returns, for each cluster with a label, how many of its nodes are fed from outside of it.
// Build enters a cluster that has agents once, or not at all if it is the sender's and has the
// ingress. A cluster without agents is entered once for each of its members.
func (t *Tree) Entered() map[string]int {
	entered := map[string]int{}
	for _, p := range t.all() {
		if p.node.Cluster == "" {
			continue
		}
		entered[p.node.Cluster] += rank(p.parent != none && t.at(p.parent).node.Cluster != p.node.Cluster)
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

// Differing returns the nodes of the tree that are new since an earlier tree, or have another
// parent or other children than there; in no order. The time that it takes grows with the
// difference, not with the trees.
func (t *Tree) Differing(earlier *Tree) (names []string) {
	for number, of := range t.places.all {
		if number < len(earlier.places.all) && of == earlier.places.all[number] {
			continue
		}
		for i := range of.on {
			if p := &of.on[i]; p.node.Name != "" && !t.isAlike(p, earlier) {
				names = append(names, p.node.Name)
			}
		}
	}
	return names
}

// isAlike reports whether a node has the parent and the children that it has in another tree.
func (t *Tree) isAlike(p *place, other *Tree) bool {
	at, known := other.index.find(p.node.Name)
	if !known {
		return false
	}
	was := other.at(at)
	if (p.parent == none) != (was.parent == none) || len(p.children) != len(was.children) {
		return false
	}
	if p.parent != none && t.at(p.parent).node.Name != other.at(was.parent).node.Name {
		return false
	}
	for i, child := range p.children {
		if t.at(child).node.Name != other.at(was.children[i]).node.Name {
			return false
		}
	}
	return true
}
