package tree

import (
	"fmt"
	"slices"
)

// With returns the tree with one more node, placed by the same rules as far as nobody else
// has to move. So an agent that joins a cluster which had none does not take over the cluster's members,
// nor does the sender feed it: only Build does that.
// It fails with a *FanOutError if there is no room for the node.
func (t *Tree) With(node Node) (*Tree, error) {
	if _, known := t.index.find(node.Name); known || node.Name == "" {
		return nil, fmt.Errorf("tree: %q cannot be added: the name is empty or taken", node.Name)
	}
	other := t.next()
	at := other.add(node)
	other.goBeside(at)
	if err := other.repair().rejoin(at); err != nil {
		return nil, err
	}
	return other.done(), nil
}

// Without returns the tree without one node other than the sender. Only the children of
// that node get new parents, and take along the nodes below them. It fails
// with a *FanOutError if the limit given leaves no room for that; Build may still find a tree.
func (t *Tree) Without(name string) (*Tree, error) {
	gone, known := t.index.find(name)
	if !known || gone == 0 {
		return nil, fmt.Errorf("tree: %q cannot be removed: it is the sender or not in the tree", name)
	}
	r := t.next().repair()
	if err := r.adopt(r.remove(gone), t.at(gone).node.Cluster); err != nil {
		return nil, err
	}
	return r.done(), nil
}

// remove takes a node out of the tree and returns the nodes it fed.
func (t *Tree) remove(gone int) []int {
	orphans := slices.Clone(t.at(gone).children)
	for _, orphan := range orphans {
		t.detach(orphan)
	}
	if t.at(gone).parent != none {
		t.detach(gone)
	}
	t.vacate(gone)
	return orphans
}
