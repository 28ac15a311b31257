package tree

import (
	"cmp"
	"slices"
)

// site holds the agents of one label, and what must be known to find a parent among them for a node
// from elsewhere without a look at each. Nodes come and go with ever new labels: one that nobody has any more leaves a vacant site to the next.
type site struct {
	label  string
	nodes  int // how many have the label; a vacant site has none
	agents []int
	// settled says that the path from the sender comes to all of them over the same entry,
	// and that the rest holds.
	settled bool
	full    bool // none of them has room
	best    int  // the agent nearest to the entry: of those with room or, if there are none, of those with the smallest excess; of a vacant site the next vacant one
}

// come returns the site of a label, at which there is one node more; leave takes one from a site.
func (t *Tree) come(label string) int {
	number, known := t.labels.find(label)
	if !known {
		number = t.open(label)
	}
	t.sites.change(t.edition, number).nodes++
	return number
}

func (t *Tree) leave(number int) {
	s := t.sites.change(t.edition, number)
	if s.nodes--; s.nodes > 0 {
		return
	}
	t.labels.remove(t.edition, s.label)
	*s = site{best: t.vacant}
	t.vacant = number
}

// open gives a label a site.
func (t *Tree) open(label string) int {
	number := t.vacant
	if number == none {
		number = t.sites.add(t.edition, site{})
	} else {
		t.vacant = t.sites.at(number).best
	}
	*t.sites.change(t.edition, number) = site{label: label, best: none}
	t.labels.put(t.edition, label, number)
	return number
}

// goTo gives a member another label.
func (t *Tree) goTo(member int, label string) {
	p := t.change(member)
	before := p.site
	p.node.Cluster, p.label, p.site = label, t.dist.labels[label], t.come(label)
	t.leave(before)
}

// settleIn adds an agent to its site; moveOut takes it from there.
func (t *Tree) settleIn(agent int) {
	s := t.sites.change(t.edition, t.at(agent).site)
	if !t.fresh {
		s.agents = slices.Clip(s.agents)
	}
	s.agents, s.settled = append(s.agents, agent), false
}

func (t *Tree) moveOut(agent int) {
	s := t.sites.change(t.edition, t.at(agent).site)
	s.agents = slices.DeleteFunc(slices.Clone(s.agents), func(other int) bool { return other == agent })
	s.settled = false
}

// unsettle notes that something of a site has changed, so that it has to be reviewed.
func (t *Tree) unsettle(number int) {
	if t.sites.at(number).settled {
		t.sites.change(t.edition, number).settled = false
	}
}

// review finds out what is known of a site that has changed.
func (t *Tree) review(number int) {
	s := t.sites.at(number)
	if s.settled || len(s.agents) == 0 {
		return
	}
	entry, best := t.at(s.agents[0]).entry, s.agents[0]
	for _, agent := range s.agents[1:] {
		p := t.at(agent)
		if p.entry != entry {
			return // agents without a label share a site, but are no cluster
		}
		if t.comparePlaces(agent, best) < 0 {
			best = agent
		}
	}
	s = t.sites.change(t.edition, number)
	s.settled, s.full, s.best = true, t.excess(best) > 0, best
}

// comparePlaces orders agents that are reached over one entry, the better parent first, for a node that is equally far from both.
func (t *Tree) comparePlaces(a, b int) int {
	wayA, wayB := &t.at(a).way, &t.at(b).way
	return cmp.Or(
		cmp.Compare(t.excess(a), t.excess(b)),
		cmp.Compare(wayA.cost, wayB.cost),
		cmp.Compare(wayA.depth, wayB.depth),
		t.compareOrder(a, b),
	)
}

// home returns the number of the cluster in which a node is fed: the number of its site if that has
// agents. An agent without a label, with the members beside it, has a number of its own, below
// none. Without a cluster it is none.
func (t *Tree) home(at int) int {
	p := t.at(at)
	switch beside := t.beside(at); {
	case beside != none:
		return t.home(beside)
	case p.node.Kind == Agent && p.node.Cluster == "":
		return none - 1 - at
	case p.node.Cluster == "" || len(t.sites.at(p.site).agents) == 0:
		return none
	}
	return p.site
}
