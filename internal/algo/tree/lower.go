package tree

import (
	"cmp"
	"fmt"
	"slices"
)

// Lower returns the tree with an agent, and the members beside it, at a lower level: where it belongs
// by the rate that it was seen to take, in bytes per second, which is its uplink from then on, until Rated. The nodes that it fed over links get new
// parents. Neither they nor other agents that are at least as strong hang below it. An agent that is
// alone in its cluster goes below agents of other clusters. Lower fails if nobody can take the
// agent's place, with a *FanOutError if there is no room, or with a *LatencyError if a path would
// become too long and none was before.
func (t *Tree) Lower(name string, rate uint64) (*Tree, error) {
	at, known := t.index.find(name)
	if !known || !t.agent(at) || !t.agent(t.at(at).parent) {
		return nil, fmt.Errorf("tree: %q is not an agent that another feeds", name)
	}
	before := t.ways()
	above, _ := before.to(at)
	r := t.next().repair()
	r.detach(at)
	r.change(at).node.Uplink = max(rate, 1)
	orphans := r.orphan(at)
	if err := r.adopt(orphans, t.at(at).node.Cluster); err != nil {
		return nil, err
	}
	below := r.below(at, above.depth, rate)
	if len(below) == 0 || r.leaves(orphans, at) {
		return nil, fmt.Errorf("tree: nobody can take the place of %q", name)
	}
	if err := r.insert(at, below); err != nil {
		return nil, err
	}
	return r.Tree, r.stillKeeps(t)
}

// below returns the agents, the highest first, that may feed the lowered node: they are at least as
// deep as it was, and can send at its rate.
func (r *repair) below(at, depth int, rate uint64) (parents []int) {
	depths := map[int]int{}
	for _, parent := range r.parents(at) {
		path, _ := r.to(parent)
		if depths[parent] = path.depth; path.depth >= depth && r.at(parent).node.Capacity() >= rate {
			parents = append(parents, parent)
		}
	}
	slices.SortFunc(parents, func(a, b int) int {
		return cmp.Or(cmp.Compare(depths[a], depths[b]), r.compareOrder(a, b))
	})
	return parents
}

// insert attaches a node to one of several parents. If none has room, the node takes the place of a
// weaker agent, which it then feeds.
func (r *repair) insert(at int, parents []int) error {
	defer r.done()
	for _, parent := range parents {
		for _, child := range r.at(parent).children {
			if r.excess(parent) > 0 && r.givesWay(child, at) {
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
	r.attach(at, r.best(roomy, at, total).agent)
	return nil
}

// givesWay reports whether an agent may be fed by another, where its parent was to feed that one.
func (r *repair) givesWay(child, to int) bool {
	own := r.home(child) == r.home(to)
	return r.agent(child) && (own || !r.fedInside(child)) && r.at(child).node.Capacity() < r.at(to).node.Capacity()
}

// leaves reports whether a node that was fed inside of another's cluster is not any more.
func (r *repair) leaves(orphans []int, at int) bool {
	return slices.ContainsFunc(orphans, func(orphan int) bool {
		return r.home(orphan) == r.home(at) && !r.fedInside(orphan) && !r.agent(orphan)
	})
}

// orphan takes away the nodes that a node feeds over links.
func (t *Tree) orphan(at int) (orphans []int) {
	for _, child := range t.at(at).children {
		if linked(t.at(at), t.at(child)) {
			orphans = append(orphans, child)
		}
	}
	for _, orphan := range orphans {
		t.detach(orphan)
	}
	return orphans
}
