package tree

import (
	"fmt"
	"strings"
)

// String draws the tree: a line per node, indented below its parent, with its cluster, its
// uplink if that is known, and the time from the sender.
func (t *Tree) String() string {
	var b strings.Builder
	t.draw(&b, 0)
	return b.String()
}

func (t *Tree) draw(b *strings.Builder, at int) {
	p := &t.places[at]
	fmt.Fprintf(b, "%s%s %s", strings.Repeat("  ", p.depth), t.word(at), p.node.Name)
	if p.node.Cluster != "" {
		fmt.Fprintf(b, " [%s]", p.node.Cluster)
	}
	if p.node.Uplink != 0 {
		fmt.Fprintf(b, " %d B/s", p.node.Uplink)
	}
	if at != 0 {
		fmt.Fprintf(b, " %v", p.latency)
	}
	b.WriteByte('\n')
	for _, child := range p.children {
		t.draw(b, child)
	}
}

// word says what a node is in the tree.
func (t *Tree) word(at int) string {
	switch {
	case at == 0:
		return "sender"
	case t.agent(at) && t.places[at].parent == 0:
		return "ingress"
	case t.agent(at) && !t.fedInside(at):
		return "gateway"
	}
	return t.places[at].node.Kind.String()
}

// fedInside tells whether a node's parent is an agent of its own cluster.
func (t *Tree) fedInside(at int) bool {
	p := &t.places[at]
	if p.parent == none || !t.agent(p.parent) {
		return false
	}
	return p.node.Cluster != "" && p.node.Cluster == t.places[p.parent].node.Cluster
}
