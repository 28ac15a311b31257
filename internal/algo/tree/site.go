package tree

import (
	"cmp"
	"slices"
)

// site are the agents of one label, and what is to be known of them to find a parent for a
// node of elsewhere without a look at each.
type site struct {
	agents []int
	// settled says that the path from the sender comes to all of them over the same entry,
	// and that the rest holds.
	settled bool
	full    bool // none of them has room
	best    int  // the agent nearest to the entry: of those with room or, if there are none, of those with the smallest excess
}

// siteOf returns the site of a label.
func (t *Tree) siteOf(label string) int {
	number, known := t.labels.find(label)
	if !known {
		number = t.sites.add(t.edition, site{best: none})
		t.labels.put(t.edition, label, number)
	}
	return number
}

// settleIn makes an agent one of its site, and moveOut none of it.
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

// unsettle notes that something of a site changes.
func (t *Tree) unsettle(number int) {
	if t.sites.at(number).settled {
		t.sites.change(t.edition, number).settled = false
	}
}

// review finds out what is to be known of a site.
func (t *Tree) review(number int) {
	s := t.sites.at(number)
	if s.settled || len(s.agents) == 0 {
		return
	}
	entry, best := t.at(s.agents[0]).entry, s.agents[0]
	for _, agent := range s.agents[1:] {
		p := t.at(agent)
		if p.entry != entry {
			return // a cluster without label, that is, none
		}
		if t.comparePlaces(agent, best) < 0 {
			best = agent
		}
	}
	s = t.sites.change(t.edition, number)
	s.settled, s.full, s.best = true, t.excess(best) > 0, best
}

// comparePlaces orders agents that are fed over one entry: the better parent of a node that is
// as far from both goes first.
func (t *Tree) comparePlaces(a, b int) int {
	wayA, wayB := &t.at(a).way, &t.at(b).way
	return cmp.Or(
		cmp.Compare(t.excess(a), t.excess(b)),
		cmp.Compare(wayA.cost, wayB.cost),
		cmp.Compare(wayA.depth, wayB.depth),
		t.compareOrder(a, b),
	)
}

// home returns the cluster in which a node is fed, as a number of its own: that of its site
// if it has agents; else, of an agent without label and of the members beside it, one below
// none; or none.
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
