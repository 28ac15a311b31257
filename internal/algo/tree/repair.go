package tree

import (
	"fmt"
	"maps"
)

// With returns the tree with one more node, placed by the same rules as far as nobody else
// has to move. Two things only Build can do: an agent that joins a cluster which had none
// does not take over its members, nor the sender.
// It fails with a *FanOutError if there is no room for the node.
func (t *Tree) With(node Node) (*Tree, error) {
	if _, known := t.index[node.Name]; known || node.Name == "" {
		return nil, fmt.Errorf("tree: %q cannot be added: the name is empty or taken", node.Name)
	}
	other := t.clone()
	at := other.add(node)
	other.goBeside(at)
	r := other.repair()
	if err := r.rejoin(at); err != nil {
		return nil, err
	}
	return other, nil
}

// Without returns the tree without one node other than the sender. Of all nodes only the
// children of the one that goes get new parents, and take along whom they feed. It fails
// with a *FanOutError if the limit given leaves no room for that; Build may still find one.
func (t *Tree) Without(name string) (*Tree, error) {
	gone, known := t.index[name]
	if !known || gone == 0 {
		return nil, fmt.Errorf("tree: %q cannot be removed: it is the sender or not in the tree", name)
	}
	other, orphans := t.remove(gone)
	r := other.repair()
	if err := r.adopt(orphans, t.places[gone].node.Cluster); err != nil {
		return nil, err
	}
	return other, nil
}

// remove takes a place out of the tree and returns those it fed.
func (t *Tree) remove(gone int) (*Tree, []int) {
	moved := func(at int) int { return at - rank(at > gone) }
	other := &Tree{index: maps.Clone(t.index), bound: t.bound, fanOut: t.fanOut, dist: t.dist}
	delete(other.index, t.places[gone].node.Name)
	for i, p := range t.places {
		if i == gone {
			continue
		}
		children := make([]int, 0, len(p.children))
		for _, child := range p.children {
			if child != gone {
				children = append(children, moved(child))
			}
		}
		if p.children = children; p.parent == gone {
			p.parent = none
		} else if p.parent != none {
			p.parent = moved(p.parent)
		}
		other.index[p.node.Name] = len(other.places)
		other.places = append(other.places, p)
	}
	var orphans []int
	for _, child := range t.places[gone].children {
		orphans = append(orphans, moved(child))
	}
	return other, orphans
}
