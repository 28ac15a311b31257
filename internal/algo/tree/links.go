package tree

import "fmt"

// Link is a node of a tree and who feeds it; nobody feeds the sender.
type Link struct {
	Node   Node
	Parent string
}

// Links returns the tree as a list that can be stored: the sender first, each node after its parent.
func (t *Tree) Links() []Link {
	links := make([]Link, 0, t.Len())
	for _, at := range t.topDown() {
		link := Link{Node: t.at(at).node}
		if parent := t.at(at).parent; parent != none {
			link.Parent = t.at(parent).node.Name
		}
		links = append(links, link)
	}
	return links
}

// Restore returns the tree that Links listed, with a bound. It fails if the links are out of order
// or break a rule that every tree keeps.
func Restore(links []Link, bound Bound) (*Tree, error) {
	nodes := make([]Node, len(links))
	for i, link := range links {
		nodes[i] = link.Node
	}
	if len(links) == 0 {
		return nil, fmt.Errorf("tree: restore from nothing")
	}
	bound.RTT = bound.RTT.Shared()
	if err := check(nodes[0].Name, nodes, bound); err != nil {
		return nil, err
	}
	t := unplaced(nodes[0].Name, nodes, bound)
	for i, link := range links[1:] {
		parent, known := t.index.find(link.Parent)
		if !known || parent != 0 && t.at(parent).parent == none {
			return nil, fmt.Errorf("tree: restore: %q comes before its parent %q", links[i+1].Node.Name, link.Parent)
		}
		child, _ := t.index.find(link.Node.Name)
		t.attach(child, parent)
	}
	return t.done(), t.Validate()
}
