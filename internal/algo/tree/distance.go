package tree

import (
	"strings"
	"time"
)

// What a hop without measurement is assumed to take, one way, when trees are compared. That is
// pessimistic: a parent that was measured to be near is better than one that was not measured.
const (
	assumedInside  = 500 * time.Microsecond // within a cluster
	assumedAround  = AroundZone / 2         // between clusters of a zone
	assumedBetween = 50 * time.Millisecond  // between any others
)

// AroundZone is the assumed round trip between two clusters of a zone that was not measured.
const AroundZone = 4 * time.Millisecond

// distances are RTTs with names replaced by numbers, for quick look-up.
type distances struct {
	ids, labels     map[string]uint32
	nodes, clusters map[[2]uint32]time.Duration
	peers           map[uint32][]string // for each node's number, the names of the nodes to which a time was measured
	wrong           error               // what is wrong with the RTTs
	light           bool                // they are those of one tree's hops
	central         map[string]bool     // if they are light: those agents through which a cluster is entered of which isCentral holds
}

func measure(rtt RTTs) *distances {
	d := &distances{
		ids: map[string]uint32{"": 0}, labels: map[string]uint32{"": 0}, peers: map[uint32][]string{}, wrong: rtt.check(),
	}
	d.nodes = number(rtt.Nodes, d.ids)
	d.clusters = number(rtt.Clusters, d.labels)
	for pair := range rtt.Nodes {
		if _, both := rtt.Nodes[Pair{pair.B, pair.A}]; both && pair.A > pair.B {
			continue // the other order is enough
		}
		d.peers[d.ids[pair.A]] = append(d.peers[d.ids[pair.A]], pair.B)
		d.peers[d.ids[pair.B]] = append(d.peers[d.ids[pair.B]], pair.A)
	}
	return d
}

// number gives each name a number; 0 means none.
func number(times map[Pair]time.Duration, ids map[string]uint32) map[[2]uint32]time.Duration {
	id := func(name string) uint32 {
		if _, known := ids[name]; !known {
			ids[name] = uint32(len(ids))
		}
		return ids[name]
	}
	numbered := make(map[[2]uint32]time.Duration, len(times))
	for pair, rtt := range times {
		key := ordered(id(pair.A), id(pair.B))
		numbered[key] = max(numbered[key], rtt)
	}
	return numbered
}

func ordered(a, b uint32) [2]uint32 { return [2]uint32{min(a, b), max(a, b)} }

// rtt returns the round trip between two nodes, and whether it was measured.
func (d *distances) rtt(a, b *place) (time.Duration, bool) {
	if a.id != 0 && b.id != 0 {
		if rtt, measured := d.nodes[ordered(a.id, b.id)]; measured {
			return rtt, true
		}
	}
	if a.label != 0 && b.label != 0 {
		rtt, measured := d.clusters[ordered(a.label, b.label)]
		return rtt, measured
	}
	return 0, false
}

// take takes the round trip between two nodes from other distances, which have the same numbers.
func (d *distances) take(from *distances, a, b *place) {
	nodes, clusters := ordered(a.id, b.id), ordered(a.label, b.label)
	if rtt, measured := from.nodes[nodes]; measured && a.id != 0 && b.id != 0 {
		d.nodes[nodes] = rtt
	} else if rtt, measured := from.clusters[clusters]; measured && a.label != 0 && b.label != 0 {
		d.clusters[clusters] = rtt
	}
}

// step returns what the hop from a parent to a child adds to a path.
func (d *distances) step(parent, child *place) way {
	hop, unmeasured := d.hop(parent, child)
	return way{hop, 1, Latency{hop * time.Duration(1-unmeasured), unmeasured}}
}

// hop returns what the hop between two nodes costs, and 1 if it was not measured, else 0.
func (d *distances) hop(a, b *place) (time.Duration, int) {
	if rtt, measured := d.rtt(a, b); measured {
		return rtt / 2, 0
	}
	switch {
	case near(a.node, b.node):
		return assumedInside, 1
	case SameZone(a.node.Cluster, b.node.Cluster):
		return assumedAround, 1
	}
	return assumedBetween, 1
}

// SameZone reports whether two clusters' labels begin with the same zone: they are ZONE, or ZONE/RACK.
func SameZone(a, b string) bool {
	zoneA, _, _ := strings.Cut(a, "/")
	zoneB, _, _ := strings.Cut(b, "/")
	return zoneA != "" && zoneA == zoneB
}

// near reports whether two nodes are of one cluster, or one is a member beside the other.
func near(a, b Node) bool {
	return a.Cluster != "" && a.Cluster == b.Cluster || a.isBeside(b) || b.isBeside(a)
}

// isBeside reports whether a node is a member that has another beside it.
func (n Node) isBeside(other Node) bool {
	return n.Kind == Member && other.Kind == Agent && n.Agent == other.Name
}
