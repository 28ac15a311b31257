package tree

import (
	"cmp"
	"slices"
)

// unplaced returns a tree in which nobody is fed yet. The sender has the first place and the order
// is that of strength; nodes of a cluster have neighbouring places, as they change together.
func unplaced(sender string, nodes []Node, bound Bound) *Tree {
	agents, uplink := relays(nodes)
	t := &Tree{
		hole: none, vacant: none, index: newDirectory(0, len(nodes)), labels: newDirectory(0, len(nodes)/shelfSize),
		fresh: true, bound: bound, fanOut: bound.fanOut(agents, uplink), ordinary: uplink,
	}
	t.goBy(bound.RTT)
	for _, next := range newcomers(sender, nodes) {
		t.joined = next.order
		t.add(next.node)
	}
	t.joined = len(nodes)
	for at := range t.places.length {
		t.goBeside(at)
	}
	return t
}

// newcomer is a node that is about to be added.
type newcomer struct {
	node    Node
	cluster string // its own, or that of the agent beside it
	order   int
}

func newcomers(sender string, nodes []Node) []newcomer {
	clusters := make(map[string]string, len(nodes))
	for _, node := range nodes {
		if node.Kind == Agent {
			clusters[node.Name] = node.Cluster
		}
	}
	all := make([]newcomer, len(nodes))
	for i, node := range nodes {
		all[i] = newcomer{node: node, cluster: node.Cluster}
		if beside, known := clusters[node.Agent]; known && node.Kind == Member {
			all[i].cluster = beside
		}
	}
	isSender := func(a newcomer) int { return rank(a.node.Name == sender) }
	slices.SortFunc(all, func(a, b newcomer) int {
		return cmp.Or(isSender(b)-isSender(a), Stronger(a.node, b.node))
	})
	for i := range all {
		all[i].order = i
	}
	slices.SortFunc(all, func(a, b newcomer) int {
		return cmp.Or(isSender(b)-isSender(a), cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.order, b.order))
	})
	return all
}
