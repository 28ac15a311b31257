package tree

import "time"

// Gain is what a node gains by another parent, or the sender by another agent that it feeds.
type Gain struct {
	Node, From, To string
	Inside         bool // To is beside the node or of its cluster, and From is not
	// Was and Is are round trips, before and after: between a member and its parent, or from the
	// ingress along the tree to an agent and back. Both are 0 where one was not measured.
	Was, Is time.Duration
}

const (
	// A parent is clearly nearer if it is at least nearer times as near, and nearer by at least leastNearer.
	nearer      = 2
	leastNearer = 2 * time.Millisecond
)

// Nearer returns the tree with a node, and all below it, at a clearly better parent than it has:
// the parent that With would give it, by what is known of the node now. A parent is clearly better if it is
// beside the node or of its cluster, and the present one is not; or if it is twice as near, by measurement.
// It must not make a path too long, nor feed more than suits the load and more than
// the present one does. Agents that are fed inside their cluster, where all is near, or feed nobody, stay.
// An agent that feeds nobody any more after a move is left out. For the sender, another agent
// becomes the ingress, and feeds the former one.
func (t *Tree) Nearer(node Node) (*Tree, Gain, bool) {
	at, known := t.index.find(node.Name)
	if known && at == 0 {
		return t.nearerIngress(node)
	}
	if !known || !t.mayGain(at, node) {
		return nil, Gain{}, false
	}
	r := t.next().repair()
	before := r.stand(at, node)
	r.limit = r.allowedToo(before.parent)
	r.detach(at)
	r.leaveOut(before.parent)
	if !r.agent(at) {
		r.change(at).node = node
		r.goTo(at, node.Cluster)
	}
	r.ways = r.Tree.ways()
	if err := r.rejoin(at); err != nil {
		return nil, Gain{}, false
	}
	after := r.stand(at, r.at(at).node)
	gain := after.over(before)
	gain.Node, gain.From, gain.To = node.Name, t.at(before.parent).node.Name, r.at(after.parent).node.Name
	if !after.isBetter(before) || !r.keeps(before, after) {
		return nil, Gain{}, false
	}
	return r.done(), gain, true
}

// allowedToo returns how many an agent may feed in place of another: as many as that one feeds, at least one.
func (r *repair) allowedToo(other int) int {
	if r.bound.FanOut > 0 {
		return 1
	}
	return max(1, r.at(other).links)
}

// leaveOut takes out an agent that feeds nobody any more, and then those above it that feed nobody without it.
func (t *Tree) leaveOut(agent int) {
	for t.agent(agent) && len(t.at(agent).children) == 0 && t.at(agent).parent != 0 {
		up := t.at(agent).parent
		t.detach(agent)
		t.vacate(agent)
		agent = up
	}
}

// mayGain reports whether another parent may be better for a node.
func (t *Tree) mayGain(at int, node Node) bool {
	p := t.at(at)
	if at == 0 || p.parent == none || p.node.Kind != node.Kind {
		return false
	}
	up := t.at(p.parent)
	if node.Kind == Agent {
		return p.parent != 0 && len(p.children) > 0 && nearness(up, node) == elsewhere && t.isFar(at)
	}
	beside, has := t.index.find(node.Agent)
	return nearness(up, node) == elsewhere || has && t.agent(beside) && beside != p.parent
}

// isFar reports whether there is an agent over which the path to another would be so much shorter,
// whatever room it has. Those below that one are farther than itself.
func (t *Tree) isFar(at int) bool {
	r := t.repair()
	path, _ := r.to(at)
	ingress, _ := r.to(r.at(0).children[0])
	best := r.best(r.anywhere(at), at, total)
	return nearer*(best.measure-ingress.cost) <= path.cost-ingress.cost
}

const (
	besideIt = iota
	insideIts
	elsewhere
)

// nearness says where a parent is as seen from a node.
func nearness(parent *place, node Node) int {
	switch {
	case node.isBeside(parent.node):
		return besideIt
	case parent.node.Kind == Agent && parent.node.Cluster != "" && parent.node.Cluster == node.Cluster:
		return insideIts
	}
	return elsewhere
}

// stand describes how well a node is placed at its parent.
type stand struct {
	parent   int
	nearness int
	path     way
	rtt      time.Duration // by which stands are compared
	measured bool
}

func (r *repair) stand(at int, node Node) stand {
	p := r.at(at)
	s := stand{parent: p.parent, nearness: nearness(r.at(p.parent), node)}
	s.path, _ = r.to(at)
	if s.rtt, s.measured = r.dist.rtt(r.at(p.parent), p); node.Kind == Agent {
		ingress, _ := r.to(r.at(0).children[0])
		from := s.path.since(ingress).latency
		s.rtt, s.measured = 2*from.Measured, from.Unmeasured == 0
	}
	return s
}

// isBetter reports whether one stand is clearly better than another.
func (s stand) isBetter(than stand) bool {
	if s.nearness != than.nearness {
		return s.nearness < than.nearness
	}
	return s.nearness == elsewhere && s.measured && than.measured &&
		nearer*s.rtt <= than.rtt && than.rtt-s.rtt >= leastNearer
}

func (s stand) over(than stand) Gain {
	gain := Gain{Inside: s.nearness < than.nearness}
	if s.measured && than.measured {
		gain.Was, gain.Is = than.rtt, s.rtt
	}
	return gain
}

// keeps reports whether a tree is still what it has to be: no path is too long that was not, and none
// is longer by more than half of what the last hop is shorter.
func (r *repair) keeps(before, after stand) bool {
	longer := after.path.cost - before.path.cost
	limit, late := r.bound.MaxLatency, after.path.latency.Measured
	if limit > 0 && late > limit && late > before.path.latency.Measured {
		return false
	}
	return after.nearness < before.nearness || 4*longer <= before.rtt-after.rtt
}
