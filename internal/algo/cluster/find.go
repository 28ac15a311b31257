package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Mark begins the names of clusters that were found; after it comes the name of a node.
const Mark = "~"

// enough is how many of a cluster's nodes a node must be known to be near.
const enough = 3

// Node is a node that belongs to a cluster, and measures the others.
type Node struct {
	Name  string
	Label string // the name of its cluster, if that is given
}

// Clusters says which nodes belong together.
type Clusters struct {
	of        map[string]string // cluster, by node
	nodes     map[string][]string
	landmarks []string // a node of each of the largest clusters
	threshold time.Duration
}

// Of returns the cluster of a node.
func (c *Clusters) Of(name string) string { return c.of[name] }

// Len returns how many nodes there are.
func (c *Clusters) Len() int { return len(c.of) }

// All returns the clusters with their nodes, each in order.
func (c *Clusters) All() map[string][]string { return c.nodes }

// Find returns the clusters of nodes; before is what Find returned last, or nil.
func Find(nodes []Node, times *Times, threshold time.Duration, before *Clusters, now time.Time) *Clusters {
	f := newFinder(nodes, times, threshold, now)
	rest := f.keep(before)
	slices.SortFunc(rest, f.byName)
	for _, at := range rest {
		f.place(at)
	}
	for f.merge() {
	}
	return f.clusters()
}

// finder holds the nodes while their clusters are found.
type finder struct {
	threshold time.Duration
	nodes     []Node
	near      [][]edge
	labels    []string // the cluster of each node; empty while it has none
	members   map[string][]int
	given     map[string]bool // clusters that nodes have as their label
}

// edge is a round trip to another node.
type edge struct {
	to  int
	rtt time.Duration
}

func newFinder(nodes []Node, times *Times, threshold time.Duration, now time.Time) *finder {
	f := &finder{
		threshold: threshold, nodes: nodes, near: make([][]edge, len(nodes)), labels: make([]string, len(nodes)),
		members: make(map[string][]int), given: make(map[string]bool),
	}
	index := make(map[string]int, len(nodes))
	for at, node := range nodes {
		index[node.Name] = at
		if node.Label != "" {
			f.given[node.Label] = true
			f.add(at, node.Label)
		}
	}
	for at, node := range nodes {
		for name := range times.said[node.Name] {
			to, there := index[name]
			if !there || name < node.Name { // each pair once
				continue
			}
			if rtt, known := times.Between(node.Name, name, now); known {
				f.near[at] = append(f.near[at], edge{to, rtt})
				f.near[to] = append(f.near[to], edge{at, rtt})
			}
		}
	}
	return f
}

func (f *finder) byName(a, b int) int { return strings.Compare(f.nodes[a].Name, f.nodes[b].Name) }

func (f *finder) add(at int, label string) {
	f.labels[at] = label
	f.members[label] = append(f.members[label], at)
}

// ties are what is known of the distances between a node and a cluster.
type ties struct {
	known int
	worst time.Duration
}

func (t ties) with(rtt time.Duration) ties { return ties{t.known + 1, max(t.worst, rtt)} }

// ties returns the ties between a node and each cluster.
func (f *finder) ties(at int) map[string]ties {
	all := make(map[string]ties)
	for _, edge := range f.near[at] {
		if label := f.labels[edge.to]; label != "" {
			all[label] = all[label].with(edge.rtt)
		}
	}
	return all
}

// joins reports whether a node with these ties may come into a cluster of a size.
func (t ties) joins(size int, threshold time.Duration) bool {
	return t.known >= min(size, enough) && t.worst <= threshold
}

// bearable returns how far apart nodes may be that are in one cluster already.
func bearable(threshold time.Duration) time.Duration { return threshold + threshold/2 }

// keep leaves nodes where they were, as far as they still belong there, and returns the others.
func (f *finder) keep(before *Clusters) (rest []int) {
	var placed []int
	was := func(at int) string {
		if before == nil {
			return ""
		}
		return before.of[f.nodes[at].Name]
	}
	for at, label := range f.labels {
		switch {
		case label != "":
		case was(at) == "" || !strings.HasPrefix(was(at), Mark) && !f.given[was(at)]:
			rest = append(rest, at)
		default:
			placed = append(placed, at)
		}
	}
	with := f.companions(was)
	slices.SortFunc(placed, func(a, b int) int {
		return cmp.Or(strings.Compare(was(a), was(b)), cmp.Compare(with[a].far, with[b].far), f.byName(a, b))
	})
	for _, at := range placed {
		label := was(at)
		if with[at].someKnown() && f.ties(at)[label].worst <= bearable(f.threshold) {
			f.add(at, label)
		} else {
			rest = append(rest, at)
		}
	}
	return rest
}

// companions counts the other nodes of the cluster that a node was in: all, those at a known distance, and those too far away.
type companions struct{ all, known, far int }

func (c companions) someKnown() bool { return c.known > 0 || c.all == 0 }

// companions returns the companions of each node. If two nodes cannot both stay, the node stays that is too far from fewer.
func (f *finder) companions(was func(at int) string) []companions {
	size, with := make(map[string]int), make([]companions, len(f.nodes))
	for at := range f.nodes {
		size[was(at)]++
	}
	for at := range f.nodes {
		with[at].all = size[was(at)] - 1
		for _, edge := range f.near[at] {
			if was(at) == was(edge.to) {
				with[at].known++
				with[at].far += rank(edge.rtt > bearable(f.threshold))
			}
		}
	}
	return with
}

// place puts a node into the nearest cluster that it may join, or into a cluster of its own.
func (f *finder) place(at int) {
	if label := nearest(f.ties(at), f.threshold, f.size); label != "" {
		f.add(at, label)
		return
	}
	label := Mark + f.nodes[at].Name
	for len(f.members[label]) > 0 { // other nodes have kept this name
		label += Mark
	}
	f.add(at, label)
}

func (f *finder) size(label string) int { return len(f.members[label]) }

// nearest returns the cluster to join: of those that may be joined, the one whose farthest node is nearest.
func nearest(all map[string]ties, threshold time.Duration, size func(label string) int) (best string) {
	for label, t := range all {
		if !t.joins(size(label), threshold) {
			continue
		}
		if best == "" || cmp.Or(cmp.Compare(t.worst, all[best].worst), strings.Compare(label, best)) < 0 {
			best = label
		}
	}
	return best
}

// merge puts one cluster into another if all its nodes may join that; small clusters go first. It reports whether it found any.
func (f *finder) merge() bool {
	for _, label := range f.bySize() {
		if f.given[label] {
			continue
		}
		if into := f.joint(label); into != "" {
			moved := f.members[label]
			delete(f.members, label)
			for _, at := range moved {
				f.add(at, into)
			}
			return true
		}
	}
	return false
}

func (f *finder) bySize() []string {
	return slices.SortedFunc(maps.Keys(f.members), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.size(a), f.size(b)), strings.Compare(b, a))
	})
}

// joint returns the cluster that all nodes of a cluster may join; empty if there is none.
func (f *finder) joint(label string) string {
	var joint map[string]ties
	for _, at := range f.members[label] {
		own := f.ties(at)
		for other, t := range own {
			joined, sharedSoFar := joint[other]
			if other == label || joint != nil && !sharedSoFar || !t.joins(f.size(other), f.threshold) {
				delete(own, other)
				continue
			}
			own[other] = ties{t.known, max(t.worst, joined.worst)}
		}
		if joint = own; len(joint) == 0 {
			return ""
		}
	}
	return nearest(joint, f.threshold, f.size)
}

func (f *finder) clusters() *Clusters {
	c := &Clusters{of: make(map[string]string, len(f.nodes)), nodes: make(map[string][]string), threshold: f.threshold}
	for at, node := range f.nodes {
		c.of[node.Name] = f.labels[at]
		c.nodes[f.labels[at]] = append(c.nodes[f.labels[at]], node.Name)
	}
	for _, nodes := range c.nodes {
		slices.Sort(nodes)
	}
	c.landmarks = c.chooseLandmarks()
	return c
}

// chooseLandmarks returns a node of each of the largest clusters.
func (c *Clusters) chooseLandmarks() (names []string) {
	labels := slices.SortedFunc(maps.Keys(c.nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(c.nodes[b]), len(c.nodes[a])), strings.Compare(a, b))
	})
	for _, label := range labels[:min(landmarkCount, len(labels))] {
		names = append(names, c.nodes[label][0])
	}
	return names
}

// Guest returns the cluster of somebody that measures the nodes but is not measured itself, and
// that was in a cluster before; empty if it is near none.
func (c *Clusters) Guest(times map[string]time.Duration, before string) string {
	all := make(map[string]ties)
	for name, rtt := range times {
		if label := c.of[name]; label != "" {
			all[label] = all[label].with(rtt)
		}
	}
	size := func(label string) int { return len(c.nodes[label]) }
	if t, tied := all[before]; tied && t.worst <= bearable(c.threshold) {
		return before
	}
	return nearest(all, c.threshold, size)
}
