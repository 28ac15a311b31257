package tree

import "fmt"

// Rise returns the tree with an agent and its parent changed places: the agent is fed from where its parent was, and
// feeds its parent. All others stay where they are, so that the step can be undone; therefore the parent must be of
// the same cluster, or be the agent through which its own cluster is entered. The agent may then feed one more than
// suits it, but not more than a given limit. Rise fails if the latency is bounded.
func (t *Tree) Rise(name string) (*Tree, error) {
	at, known := t.index.find(name)
	if !known || !t.agent(at) || !t.fedInside(at) && !t.isEntry(t.at(at).parent) {
		return nil, fmt.Errorf("tree: %q is not an agent that can change places with the one that feeds it", name)
	}
	switch limit := t.bound.FanOut; {
	case t.bound.MaxLatency > 0:
		return nil, fmt.Errorf("tree: %q would make paths longer, which are bounded", name)
	case limit > 0 && t.at(at).links >= limit:
		return nil, t.repair().full(at, []int{at})
	}
	r := t.next()
	down := r.at(at).parent
	above := r.at(down).parent
	r.detach(at)
	r.detach(down)
	r.attach(at, above)
	r.attach(down, at)
	return r.done(), nil
}

// isEntry reports whether a node is the agent through which its cluster is entered from elsewhere.
func (t *Tree) isEntry(at int) bool {
	p := t.at(at)
	return t.agent(at) && !t.fedInside(at) && (p.node.Cluster == "" || p.node.Cluster != t.at(p.parent).node.Cluster)
}
