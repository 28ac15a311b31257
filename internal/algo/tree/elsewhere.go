package tree

import (
	"fmt"
	"slices"
)

// Elsewhere returns the tree with a member moved to the best other agent: not the one that feeds it now, and
// none of those named in but. If its cluster has such an agent the member stays in the cluster, else it may go
// anywhere. Elsewhere fails with a *FanOutError if none of these agents has room.
func (t *Tree) Elsewhere(name string, but ...string) (*Tree, error) {
	at, known := t.index.find(name)
	if !known || t.agent(at) || t.at(at).parent == none || !t.agent(t.at(at).parent) {
		return nil, fmt.Errorf("tree: %q is not a member that an agent feeds", name)
	}
	r := t.next().repair()
	old := r.at(at).parent
	r.detach(at)
	isOut := func(agent int) bool { return agent == old || slices.Contains(but, r.at(agent).node.Name) }
	others := slices.DeleteFunc(r.own(at), isOut)
	if len(others) == 0 {
		others = slices.DeleteFunc(r.allFed(), isOut)
	}
	roomy := r.withRoom(others)
	if len(roomy) == 0 {
		return nil, r.full(at, others)
	}
	r.attach(at, r.best(roomy, at, total).agent)
	return r.done(), nil
}
