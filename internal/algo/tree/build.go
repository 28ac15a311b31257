package tree

import (
	"cmp"
	"slices"
	"time"
)

// Build arranges the nodes, of which the sender is one, into a tree. If the agents are too few for
// the given fan-out limit it fails with a *FanOutError. If it found no tree within the latency
// bound it fails with a *LatencyError, about the best of the trees that it tried. Otherwise it
// fails only on wrong input.
//
// All agents given are used: the caller leaves out agents that help nobody.
func Build(sender string, nodes []Node, bound Bound) (*Tree, error) {
	t, err := BuildLate(sender, nodes, bound)
	if err == nil {
		err = t.CheckLatency()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// BuildLate is Build for a delivery that had better go on late than not at all: where it found no tree
// within the latency bound, it returns the best of the trees that it tried.
func BuildLate(sender string, nodes []Node, bound Bound) (*Tree, error) {
	bound.RTT = bound.RTT.Shared()
	if err := check(sender, nodes, bound); err != nil {
		return nil, err
	}
	start := unplaced(sender, nodes, bound)
	var nearest *Tree
	var shortest time.Duration // to the member that is farthest in nearest
	for _, attempt := range attempts(start) {
		t, err := start.next().arrange(attempt)
		if err != nil && nearest == nil {
			return nil, err
		}
		if err != nil {
			continue
		}
		late := t.breach()
		if late == nil {
			return t.done(), nil
		}
		if nearest == nil || late.Latency.Measured < shortest {
			nearest, shortest = t, late.Latency.Measured
		}
	}
	return nearest.done(), nil
}

// attempt is one way to arrange a tree.
type attempt struct {
	limit     int  // fan-out
	byLatency bool // near nodes go before strong ones
	ingress   int  // which agent is the ingress: 0 is the best, 1 the second best, …
}

// attempts returns the ways to arrange the tree, in the order in which to try them.
func attempts(start *Tree) []attempt {
	fanOut, bound := start.fanOut, start.bound
	tries := []attempt{{fanOut, false, 0}}
	if bound.MaxLatency == 0 {
		return tries
	}
	for {
		for ingress := range ingresses {
			tries = append(tries, attempt{fanOut, true, ingress}, attempt{fanOut, false, ingress})
		}
		if bound.FanOut > 0 || fanOut >= start.places.length {
			return tries
		}
		fanOut *= 4
	}
}

// ingresses is how many agents are tried as the ingress for the sake of the latency bound.
const ingresses = 4

// draft is a tree while Build works on it.
type draft struct {
	ways
	attempt
	clusters []*cluster
	entered  []*cluster
	waiting  []*cluster // not entered yet, the next to enter first
	spare    int        // how many nodes from outside their own cluster the entered clusters can still feed
	inside   []int      // for each place, the cluster in which it is fed, or none
	outside  []int      // members that are fed in no cluster
	free     []int      // for each place, how many more the agent there may feed
}

// arrange gives every place its parent.
func (t *Tree) arrange(how attempt) (*Tree, error) {
	d := &draft{ways: t.ways(), attempt: how, free: make([]int, t.places.length)}
	d.formClusters()
	if len(d.clusters) == 0 {
		for _, member := range d.outside {
			d.attach(member, 0)
		}
		return d.Tree, nil
	}
	d.want()
	ingress, err := d.setLimits()
	if err != nil {
		return nil, err
	}
	d.lead(ingress)
	d.freePlaces()
	d.queue(ingress)
	d.enterWanted()
	d.placeInside()
	d.placeOutside()
	d.enterAll()
	return d.Tree, nil
}

// chooseIngress returns the agent that the sender feeds: one of its own cluster, or else one
// from whose cluster the others can be entered.
func (d *draft) chooseIngress() int {
	clusters := d.clusters
	if home := d.inside[0]; home != none {
		clusters = d.clusters[home : home+1]
	}
	var candidates []int
	for _, c := range clusters {
		candidates = append(candidates, c.agents...)
	}
	sender := d.at(0)
	slices.SortFunc(candidates, func(a, b int) int {
		return cmp.Or(
			rank(d.clusters[d.inside[b]].spare > 0)-rank(d.clusters[d.inside[a]].spare > 0),
			rank(d.at(b).node.Name == sender.node.Agent)-rank(d.at(a).node.Name == sender.node.Agent),
			cmp.Compare(d.hop(0, a), d.hop(0, b)),
			rank(d.clusters[d.inside[b]].wanted)-rank(d.clusters[d.inside[a]].wanted),
			d.compareOrder(a, b),
		)
	})
	return candidates[min(d.ingress, len(candidates)-1)]
}

// lead gives each cluster its gateway.
func (d *draft) lead(ingress int) {
	for i, c := range d.clusters {
		if i == d.inside[ingress] {
			c.leadBy(ingress)
			continue
		}
		c.leadBy(slices.MinFunc(c.agents, func(a, b int) int { return d.compareGateways(c, ingress, a, b) }))
	}
}

// compareFrom orders places: the one nearer to from goes first, then the stronger one.
func (d *draft) compareFrom(from, a, b int) int {
	return cmp.Or(cmp.Compare(d.hop(from, a), d.hop(from, b)), d.compareOrder(a, b))
}

// compareGateways orders the agents of a cluster: the better gateway first.
func (d *draft) compareGateways(c *cluster, ingress, a, b int) int {
	stronger := cmp.Compare(d.at(b).node.Capacity(), d.at(a).node.Capacity())
	if d.byLatency {
		stronger = 0
	}
	return cmp.Or(stronger, cmp.Compare(d.reach(c, ingress, a), d.reach(c, ingress, b)), d.compareOrder(a, b))
}
