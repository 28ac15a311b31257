package tree

import "cmp"

// nearerIngress is Nearer for the sender: an agent that is clearly nearer to it becomes the ingress, and
// feeds the former one.
func (t *Tree) nearerIngress(sender Node) (*Tree, Gain, bool) {
	children := t.at(0).children
	if len(children) != 1 || !t.agent(children[0]) {
		return nil, Gain{}, false
	}
	r := t.next().repair()
	r.change(0).node = sender
	r.goTo(0, sender.Cluster)
	r.ways = r.Tree.ways()
	r.goBeside(0)
	old := children[0]
	before := r.asIngress(old)
	r.limit = r.allowedToo(old)
	after, found := r.bestIngress(old)
	if !found || !after.isBetter(before) {
		return nil, Gain{}, false
	}
	longer := r.hop(0, after.parent) + r.hop(after.parent, old) - r.hop(0, old)
	tooLong := r.bound.MaxLatency > 0 && longer > 0
	if tooLong || after.nearness == before.nearness && 4*longer > before.rtt-after.rtt {
		return nil, Gain{}, false
	}
	gain := after.over(before)
	gain.Node, gain.From, gain.To = sender.Name, r.at(old).node.Name, r.at(after.parent).node.Name
	r.enterBy(after.parent, old)
	return r.done(), gain, true
}

// asIngress returns how the sender would stand if it fed an agent.
func (r *repair) asIngress(agent int) stand {
	s := stand{parent: agent, nearness: nearness(r.at(agent), r.at(0).node)}
	s.rtt, s.measured = r.dist.rtt(r.at(0), r.at(agent))
	return s
}

// bestIngress returns the best agent to be the ingress instead of old.
func (r *repair) bestIngress(old int) (best stand, found bool) {
	for at := range r.all() {
		if at == old || !r.agent(at) || !r.mayEnter(at, old) || len(r.withRoom([]int{at})) == 0 {
			continue
		}
		if s := r.asIngress(at); !found || r.compareIngresses(s, best) < 0 {
			best, found = s, true
		}
	}
	return best, found
}

func (r *repair) compareIngresses(a, b stand) int {
	return cmp.Or(
		cmp.Compare(a.nearness, b.nearness),
		cmp.Compare(r.hop(0, a.parent), r.hop(0, b.parent)),
		r.compareOrder(a.parent, b.parent),
	)
}

// mayEnter reports whether a cluster is entered once also if an agent of it enters the tree: it is the
// one by which the cluster is entered, or the tree is entered there already.
func (r *repair) mayEnter(at, old int) bool {
	p := r.at(at)
	sameAsOld := p.node.Cluster != "" && p.node.Cluster == r.at(old).node.Cluster
	return p.parent != none && (sameAsOld || nearness(r.at(p.parent), p.node) == elsewhere)
}

// enterBy has the sender feed the agent at, which then feeds old, the ingress until now.
func (r *repair) enterBy(at, old int) {
	above := r.at(at).parent
	r.detach(at)
	r.leaveOut(above)
	r.detach(old)
	r.attach(at, 0)
	if len(r.at(old).children) == 0 {
		r.vacate(old)
		return
	}
	r.attach(old, at)
}
