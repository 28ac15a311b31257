package tree

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Tree says which node feeds which. It does not change.
type Tree struct {
	edition uint64 // one more than that of the tree from which it was made
	places  pages[place]
	hole    int       // a vacant place, or none; the parent of a vacant place is the next vacant one
	joined  int       // how many nodes ever were in the tree
	index   directory // the places, by name
	sites   pages[site]
	vacant  int       // a vacant site, or none
	labels  directory // the sites, by label
	fresh   bool      // it shares nothing with another tree
	bound   Bound     // without the RTTs' maps
	fanOut  int       // the given limit, or how many children suit the load at an agent with the ordinary uplink
	// ordinary is the median of the agents' uplinks.
	ordinary uint64
	dist     *distances
}

// place is where a node sits. The first is the sender's.
type place struct {
	node      Node
	id, label uint32 // its numbers in distances
	site      int
	order     int // of two equal places the one with the lower order comes first
	parent    int // none for the sender, and while the node is not placed
	children  []int
	links     int // how many it feeds over links
	entry     int // the place at which the path from the sender comes to its site last
	way       way // from the node that feeds the entry
}

const none = -1

// way is what a path, or a part of it, costs.
type way struct {
	cost    time.Duration // with assumed costs for hops that were not measured
	depth   int
	latency Latency
}

// Latency is the time from the sender to a node, without the time that agents take.
type Latency struct {
	Measured   time.Duration // over the hops with a measured RTT
	Unmeasured int           // how many hops were not measured
}

// then returns what a path costs that goes on by next.
func (w way) then(next way) way {
	return way{
		w.cost + next.cost, w.depth + next.depth,
		Latency{w.latency.Measured + next.latency.Measured, w.latency.Unmeasured + next.latency.Unmeasured},
	}
}

// since returns what is left of a path after its beginning.
func (w way) since(begin way) way {
	return way{
		w.cost - begin.cost, w.depth - begin.depth,
		Latency{w.latency.Measured - begin.latency.Measured, w.latency.Unmeasured - begin.latency.Unmeasured},
	}
}

// next returns a copy of the tree that is about to be changed.
func (t *Tree) next() *Tree {
	other := *t
	other.edition++
	other.places.all, other.sites.all = slices.Clone(t.places.all), slices.Clone(t.sites.all)
	other.index.shelves, other.labels.shelves = slices.Clone(t.index.shelves), slices.Clone(t.labels.shelves)
	return &other
}

// done returns the tree, which does not change any more.
func (t *Tree) done() *Tree {
	t.fresh = false
	for number := range t.sites.length {
		t.review(number)
	}
	return t
}

// at returns a place that must only be read, change one that may be changed.
func (t *Tree) at(at int) *place     { return t.places.at(at) }
func (t *Tree) change(at int) *place { return t.places.change(t.edition, at) }

// all returns the places that are not vacant.
func (t *Tree) all() iter.Seq2[int, *place] {
	return func(yield func(int, *place) bool) {
		for at := range t.places.length {
			if p := t.at(at); p.node.Name != "" && !yield(at, p) {
				return
			}
		}
	}
}

// inOrder returns all places by their order; it is for a tree that is being built and has no vacant place.
func (t *Tree) inOrder() []int {
	places := make([]int, t.places.length)
	for at := range places {
		places[t.at(at).order] = at
	}
	return places
}

// compareOrder decides between places that are equal otherwise.
func (t *Tree) compareOrder(a, b int) int { return cmp.Compare(t.at(a).order, t.at(b).order) }

// beside returns the agent beside a member, which feeds it without a link; or none.
func (t *Tree) beside(member int) int {
	node := &t.at(member).node
	if node.Kind == Agent || node.Agent == "" {
		return none
	}
	at, known := t.index.find(node.Agent)
	if !known || !t.agent(at) {
		return none
	}
	return at
}

// linked reports whether one node would feed another over a link.
func linked(parent, child *place) bool { return !child.node.isBeside(parent.node) }

// goBeside puts a member in the cluster of the agent beside it.
func (t *Tree) goBeside(member int) {
	if agent := t.beside(member); agent != none && t.at(agent).site != t.at(member).site {
		t.goTo(member, t.at(agent).node.Cluster)
	}
}

// add adds a node that nobody feeds yet.
func (t *Tree) add(node Node) int {
	at := t.hole
	if at == none {
		at = t.places.add(t.edition, place{})
	} else {
		t.hole = t.at(at).parent
	}
	*t.change(at) = place{
		node: node, id: t.dist.ids[node.Name], label: t.dist.labels[node.Cluster],
		site: t.come(node.Cluster), order: t.joined, parent: none, entry: at,
	}
	t.joined++
	t.index.put(t.edition, node.Name, at)
	if node.Kind == Agent {
		t.settleIn(at)
	}
	return at
}

// vacate removes a node that feeds nobody and is not fed.
func (t *Tree) vacate(at int) {
	if t.agent(at) {
		t.moveOut(at)
	}
	t.index.remove(t.edition, t.at(at).node.Name)
	t.leave(t.at(at).site)
	*t.change(at) = place{parent: t.hole}
	t.hole = at
}

// attach makes one node the parent of another. The child keeps what it feeds.
func (t *Tree) attach(child, parent int) {
	t.change(child).parent = parent
	p := t.change(parent)
	if !t.fresh {
		p.children = slices.Clip(p.children) // what is behind them may be another tree's
	}
	p.children = append(p.children, child)
	p.links += rank(linked(p, t.at(child)))
	t.unsettle(p.site)
	t.reroute(child)
}

// detach takes a node, with all below it, from its parent.
func (t *Tree) detach(at int) {
	p := t.change(t.at(at).parent)
	p.children = slices.DeleteFunc(slices.Clone(p.children), func(child int) bool { return child == at })
	p.links -= rank(linked(p, t.at(at)))
	t.unsettle(p.site)
	t.change(at).parent = none
	t.reroute(at)
}

// reroute finds the way to a node from where its site is entered, and so to those below it as
// far as the site goes.
func (t *Tree) reroute(at int) {
	entry, way := t.arrive(at)
	t.shift(at, entry, way.since(t.at(at).way))
}

// arrive returns where the site of a node is entered, and the way from the node that feeds that
// entry to the node.
func (t *Tree) arrive(at int) (entry int, from way) {
	p := t.at(at)
	if p.parent == none {
		return at, way{}
	}
	up := t.at(p.parent)
	step := t.dist.step(up, p)
	if up.site != p.site {
		return at, step
	}
	return up.entry, up.way.then(step)
}

// shift adds to the way to a node and to the nodes below it in its site.
func (t *Tree) shift(at, entry int, by way) {
	p := t.change(at)
	p.entry, p.way = entry, p.way.then(by)
	t.unsettle(p.site)
	for _, child := range p.children {
		if t.at(child).site == p.site {
			t.shift(child, entry, by)
		}
	}
}

func (t *Tree) agent(at int) bool { return t.at(at).node.Kind == Agent }

// Rated returns the same tree with other uplinks of agents, by name: they change how many suit an agent, and what With, Without and Lower go by.
// Nobody moves.
func (t *Tree) Rated(uplinks map[string]uint64) *Tree {
	other := t
	for name, uplink := range uplinks {
		at, known := t.index.find(name)
		if !known || !t.agent(at) || t.at(at).node.Uplink == uplink {
			continue
		}
		if other == t {
			other = t.next()
		}
		other.change(at).node.Uplink = uplink
		other.unsettle(other.at(at).site)
	}
	if other == t {
		return t
	}
	return other.done()
}

// Measured returns the same tree with other RTTs: they change its latencies, and what With and Without go by. Nobody moves.
func (t *Tree) Measured(rtt RTTs) *Tree {
	if rtt.Version != 0 && rtt.Version == t.bound.RTT.Version {
		return t
	}
	other := t.next()
	other.goBy(rtt.Shared())
	for at := range t.all() {
		p := other.change(at)
		p.id, p.label = other.dist.ids[p.node.Name], other.dist.labels[p.node.Cluster]
	}
	for _, at := range other.topDown() {
		p := other.change(at)
		p.entry, p.way = other.arrive(at)
		other.unsettle(p.site)
	}
	return other.done()
}

// goBy has the tree go by RTTs that are shared.
func (t *Tree) goBy(rtt RTTs) {
	t.bound.RTT, t.dist = RTTs{Version: rtt.Version, shared: rtt.shared}, rtt.shared
}

// Light returns the same tree with the RTTs of its own hops alone, and which gateways are central, so that it takes less memory. Before it is
// changed it needs the others again: see Measured.
func (t *Tree) Light() *Tree {
	if t.dist.light {
		return t
	}
	own := &distances{
		nodes: make(map[[2]uint32]time.Duration), clusters: make(map[[2]uint32]time.Duration), light: true, central: make(map[string]bool),
	}
	for at, p := range t.all() {
		if p.parent == none {
			continue
		}
		own.take(t.dist, p, t.at(p.parent))
		if t.isEntry(at) && t.isCentral(at) {
			own.central[p.node.Name] = true
		}
	}
	other := *t
	other.bound.RTT, other.dist = RTTs{shared: own}, own
	return &other
}
