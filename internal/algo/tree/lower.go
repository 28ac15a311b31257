package tree

import (
	"fmt"
	"slices"
)

// Lower returns the tree with an agent, and the members beside it, at a lower level: where it
// belongs with the rate that it was seen to take, in bytes per second. Those that it fed over
// links get new parents, and none of them, nor another that is not weaker, hangs below it. It
// fails where nobody of its cluster can take its place, or with a *FanOutError.
func (t *Tree) Lower(name string, rate uint64) (*Tree, error) {
	at, known := t.index[name]
	if !known || !t.agent(at) || !t.agent(t.places[at].parent) {
		return nil, fmt.Errorf("tree: %q is not an agent that another feeds", name)
	}
	other := t.clone()
	above := t.places[at].depth
	other.detach(at)
	other.places[at].node.Uplink = max(rate, 1)
	orphans := other.orphan(at)
	r := other.repair()
	if err := r.adopt(orphans, t.places[at].node.Cluster); err != nil {
		return nil, err
	}
	below := slices.DeleteFunc(r.parents(at), func(parent int) bool {
		return r.places[parent].depth < above || r.places[parent].node.capacity() < rate
	})
	if len(below) == 0 || r.leaves(orphans, at) {
		return nil, fmt.Errorf("tree: nobody can take the place of %q", name)
	}
	return other, r.insert(at, below)
}

// insert attaches a node to one of several parents; if none has room, in the place of a weaker
// agent, which it then feeds.
func (r *repair) insert(at int, parents []int) error {
	for _, parent := range parents {
		for _, child := range r.places[parent].children {
			if r.links(parent) >= r.fanOut && r.givesWay(child, at) {
				r.detach(child)
				r.attach(child, at)
				r.attach(at, parent)
				return nil
			}
		}
	}
	roomy := r.withRoom(parents)
	if len(roomy) == 0 {
		return r.full(at, parents)
	}
	r.attach(at, r.best(roomy, at, r.total))
	return nil
}

// givesWay tells whether an agent may be fed by another, where its parent was to feed that one.
func (r *repair) givesWay(child, to int) bool {
	own := r.homes[child] == r.homes[to]
	return r.agent(child) && (own || !r.fedInside(child)) && r.places[child].node.capacity() < r.places[to].node.capacity()
}

// leaves tells whether a node that was fed inside of another's cluster is not any more.
func (r *repair) leaves(orphans []int, at int) bool {
	return slices.ContainsFunc(orphans, func(orphan int) bool {
		return r.homes[orphan] == r.homes[at] && !r.fedInside(orphan) && !r.agent(orphan)
	})
}

// orphan takes from a node those that it feeds over links.
func (t *Tree) orphan(at int) (orphans []int) {
	for _, child := range slices.Clone(t.places[at].children) {
		if t.beside(child) != at {
			t.detach(child)
			orphans = append(orphans, child)
		}
	}
	return orphans
}

// detach takes a node, with all below it, from its parent.
func (t *Tree) detach(at int) {
	parent := &t.places[t.places[at].parent]
	parent.children = slices.DeleteFunc(parent.children, func(child int) bool { return child == at })
	t.places[at].parent = none
}
