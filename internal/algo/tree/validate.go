package tree

import (
	"errors"
	"fmt"
)

// Validate returns all violations of what every tree keeps, whatever happened to it: each node is
// reached once and none is in a loop; members feed nobody; the sender feeds one agent at most; the
// agents of a cluster have one gateway; a given fan-out limit is kept.
func (t *Tree) Validate() error {
	problems := t.checkReach()
	gateways := map[string]string{}
	for i, p := range t.all() {
		if i != 0 && !t.agent(i) && len(p.children) > 0 {
			problems = append(problems, fmt.Errorf("tree: the member %q feeds others", p.node.Name))
		}
		if t.agent(i) && t.bound.FanOut > 0 && p.links > t.bound.FanOut {
			problems = append(problems, fmt.Errorf("tree: %q feeds %d, and the limit is %d", p.node.Name, p.links, t.bound.FanOut))
		}
		if !t.agent(i) || p.node.Cluster == "" || t.fedInside(i) {
			continue
		}
		if other, twice := gateways[p.node.Cluster]; twice {
			problems = append(problems, fmt.Errorf("tree: cluster %q has two gateways, %q and %q", p.node.Cluster, other, p.node.Name))
		}
		gateways[p.node.Cluster] = p.node.Name
	}
	return errors.Join(append(problems, t.checkSender()...)...)
}

func (t *Tree) checkReach() (problems []error) {
	reached := make([]int, t.places.length)
	reached[0] = 1
	var reach func(at int)
	reach = func(at int) {
		for _, child := range t.at(at).children {
			if t.at(child).parent != at {
				problems = append(problems, fmt.Errorf("tree: %q is among the children of %q, who is not its parent", t.at(child).node.Name, t.at(at).node.Name))
			}
			if reached[child]++; reached[child] == 1 {
				reach(child)
			}
		}
	}
	reach(0)
	for i, p := range t.all() {
		if reached[i] != 1 {
			problems = append(problems, fmt.Errorf("tree: %q is reached %d times", p.node.Name, reached[i]))
		}
	}
	return problems
}

func (t *Tree) checkSender() (problems []error) {
	agents := 0
	for _, child := range t.at(0).children {
		agents += rank(t.agent(child))
	}
	if agents > 1 {
		problems = append(problems, fmt.Errorf("tree: the sender %q feeds %d agents", t.Sender(), agents))
	}
	return problems
}
