package tree

import (
	"fmt"
	"strings"
)

// String draws the tree: a line per node, indented below its parent, with its cluster, its
// uplink if that is known, and the time from the sender.
func (t *Tree) String() string {
	var b strings.Builder
	ways := t.ways()
	ways.draw(&b, 0)
	return b.String()
}

func (w *ways) draw(b *strings.Builder, at int) {
	p := w.at(at)
	path, _ := w.to(at)
	fmt.Fprintf(b, "%s%s %s", strings.Repeat("  ", path.depth), w.word(at), p.node.Name)
	if p.node.Cluster != "" {
		fmt.Fprintf(b, " [%s]", p.node.Cluster)
	}
	if p.node.Uplink != 0 {
		fmt.Fprintf(b, " %d B/s", p.node.Uplink)
	}
	if at != 0 {
		fmt.Fprintf(b, " %v", path.latency)
	}
	b.WriteByte('\n')
	for _, child := range p.children {
		w.draw(b, child)
	}
}

// word says what a node is in the tree.
func (t *Tree) word(at int) string {
	switch {
	case at == 0:
		return "sender"
	case t.agent(at) && t.at(at).parent == 0:
		return "ingress"
	case t.agent(at) && !t.fedInside(at):
		return "gateway"
	}
	return t.at(at).node.Kind.String()
}

// fedInside reports whether a node's parent is an agent of its own cluster.
func (t *Tree) fedInside(at int) bool {
	p := t.at(at)
	if p.parent == none || !t.agent(p.parent) {
		return false
	}
	return p.node.Cluster != "" && p.node.Cluster == t.at(p.parent).node.Cluster
}
