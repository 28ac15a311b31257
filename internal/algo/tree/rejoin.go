package tree

import (
	"cmp"
	"slices"
	"time"
)

// repair is a tree in which some nodes have no parent at the moment.
type repair struct {
	ways
	// limit is set if the node could also stay where it is. Then no agent is made to feed more than
	// suits it, unless it feeds fewer than limit.
	limit int
}

func (t *Tree) repair() *repair { return &repair{ways: t.ways()} }

// adopt gives the children of a dead agent of a cluster new parents. Orphans with the least choice
// go first, and of these the agents that bring room; so it fails only if no choice of parents fits.
// If the dead agent was the gateway, the first orphan is the next gateway: the most central of the
// strongest.
func (r *repair) adopt(orphans []int, cluster string) error {
	aside := make(map[int]time.Duration, len(orphans))
	for _, orphan := range orphans {
		if r.turn(orphan, cluster) == 0 {
			aside[orphan] = r.aside(orphan)
		}
	}
	slices.SortFunc(orphans, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(r.turn(a, cluster), r.turn(b, cluster)),
			rank(r.bringsRoom(b, cluster))-rank(r.bringsRoom(a, cluster)),
			cmp.Compare(r.at(b).node.Capacity(), r.at(a).node.Capacity()),
			cmp.Compare(aside[a], aside[b]),
			Stronger(r.at(a).node, r.at(b).node),
		)
	})
	r.makeWay(orphans, cluster)
	for _, orphan := range orphans {
		if err := r.rejoin(orphan); err != nil {
			return err
		}
	}
	return nil
}

// makeWay puts an agent from outside the cluster first if the orphans inside, the first of which
// would be the next gateway, would leave no room for any agent from outside. It does nothing if the
// cluster still has a gateway, or if no agent is fed and the sender is of the cluster.
func (r *repair) makeWay(orphans []int, cluster string) {
	elsewhere := func(orphan int) bool { return r.agent(orphan) && r.turn(orphan, cluster) >= 2 }
	if !slices.ContainsFunc(orphans, elsewhere) || r.isLed(cluster) {
		return
	}
	most := len(orphans) + 1 // room for more than all orphans makes no difference
	room := r.roomLeft(most)
	for i, orphan := range orphans {
		if elsewhere(orphan) && r.room(orphan, "", false, 1) > 0 && room <= 0 {
			copy(orphans[1:i+1], orphans[:i])
			orphans[0] = orphan
			return
		}
		if r.turn(orphan, cluster) < 2 {
			room += r.room(orphan, "", false, most) - 1
		}
	}
}

// isLed reports whether a cluster has a gateway, or the sender in its place.
func (r *repair) isLed(cluster string) bool {
	if !r.anyFed() {
		return r.home(0) != none && r.at(0).node.Cluster == cluster
	}
	number, known := r.labels.find(cluster)
	return cluster != "" && known && slices.ContainsFunc(r.sites.at(number).agents, r.fed)
}

// anyFed reports whether any agent is fed: the sender then feeds one.
func (r *repair) anyFed() bool { return slices.ContainsFunc(r.at(0).children, r.agent) }

// turn returns when an orphan chooses its parent: first the agents, then the members that are fed
// inside the cluster; then the agents, then the members that can go anywhere.
func (r *repair) turn(orphan int, cluster string) int {
	local := cluster != "" && r.at(orphan).node.Cluster == cluster && r.home(orphan) != none
	return 2*rank(!local) + rank(!r.agent(orphan))
}

// bringsRoom reports whether other orphans may hang below this one: those of its cluster if
// it was fed inside it, all if not.
func (r *repair) bringsRoom(at int, cluster string) bool {
	inside := cluster != "" && r.at(at).node.Cluster == cluster
	return r.room(at, cluster, inside, 1) > 0
}

// room returns how many more nodes may hang below a node, counting up to most. If inside is set it
// counts only below agents of the cluster.
func (r *repair) room(at int, cluster string, inside bool, most int) (room int) {
	p := r.at(at)
	if inside && p.node.Cluster != cluster {
		return 0 // those below are elsewhere, too: a cluster is entered once
	}
	if r.agent(at) {
		room = max(0, r.suits(at)-p.links)
	}
	for _, child := range p.children {
		if room >= most {
			break
		}
		room += r.room(child, cluster, inside, most-room)
	}
	return room
}

// roomLeft returns how many more nodes the fed agents may feed, counting up to most.
func (r *repair) roomLeft(most int) (room int) {
	if !r.anyFed() {
		return 1
	}
	for number := range r.sites.length {
		s := r.sites.at(number)
		if s.settled && (s.full || !r.fed(s.best)) {
			continue
		}
		for _, agent := range s.agents {
			if r.fed(agent) {
				room += max(0, r.suits(agent)-r.at(agent).links)
			}
		}
		if room >= most {
			break
		}
	}
	return room
}

// rejoin attaches a node, with all below it, to the best parent that has room.
func (r *repair) rejoin(at int) error {
	if beside := r.beside(at); beside != none && r.fed(beside) {
		r.goBeside(at)
		r.attach(at, beside)
		return nil
	}
	if !r.anyFed() {
		r.attach(at, 0)
		return nil
	}
	roomy := r.withRoom(r.candidates(at))
	if len(roomy) == 0 {
		return r.full(at, r.parents(at))
	}
	by := total
	switch entering := r.agent(at) && len(r.own(at)) == 0; {
	case r.home(at) == none:
		by = nearest
	case entering && r.bound.MaxLatency == 0:
		by = r.thrifty(r.best(roomy, at, total).agent, at)
	}
	r.attach(at, r.best(roomy, at, by).agent)
	return nil
}

// parents returns the agents that may feed a node: those of its cluster if any of them is fed, else all.
func (r *repair) parents(at int) []int {
	if own := r.own(at); len(own) > 0 {
		return own
	}
	return r.allFed()
}

func (r *repair) allFed() (all []int) {
	for number := range r.sites.length {
		all = append(all, r.fedOf(r.sites.at(number))...)
	}
	return all
}

// own returns those agents of a node's cluster that are fed.
func (r *repair) own(at int) []int {
	home := r.home(at)
	if home < 0 {
		return nil
	}
	return r.fedOf(r.sites.at(home))
}

func (r *repair) fedOf(s *site) (fed []int) {
	for _, agent := range s.agents {
		if r.fed(agent) {
			fed = append(fed, agent)
		}
	}
	return fed
}

// candidates returns those of a node's possible parents that may be the best. Of a site whose
// agents are all equally far from the node, this is one agent.
func (r *repair) candidates(at int) []int {
	if own := r.own(at); len(own) > 0 {
		return own
	}
	return r.anywhere(at)
}

// anywhere is candidates without regard to clusters.
func (r *repair) anywhere(at int) (all []int) {
	apart := r.sitesApart(at)
	for number := range r.sites.length {
		s := r.sites.at(number)
		switch {
		case len(s.agents) == 0:
		case !s.settled || apart[number]:
			all = append(all, r.fedOf(s)...)
		case r.fed(s.best):
			all = append(all, s.best)
		}
	}
	return all
}

// sitesApart returns the sites whose agents are not all equally far from a node.
func (r *repair) sitesApart(at int) map[int]bool {
	p, apart := r.at(at), map[int]bool{}
	if beside := r.beside(at); beside != none {
		apart[r.at(beside).site] = true
	}
	for _, peer := range r.dist.peers[p.id] {
		if other, known := r.index.find(peer); known && p.id != 0 {
			apart[r.at(other).site] = true
		}
	}
	return apart
}

// withRoom returns the agents that can feed another node. If no limit is given there is always one:
// if need be, those with the smallest excess.
func (r *repair) withRoom(agents []int) (roomy []int) {
	allowed := 0
	if r.bound.FanOut == 0 && r.limit == 0 {
		allowed = r.places.length
		for _, agent := range agents {
			allowed = min(allowed, r.excess(agent))
		}
	}
	for _, agent := range agents {
		if r.excess(agent) <= allowed || r.at(agent).links < r.limit {
			roomy = append(roomy, agent)
		}
	}
	return roomy
}

func (r *repair) full(at int, agents []int) error {
	err := &FanOutError{Limit: r.fanOut, Places: r.fanOut * len(agents), Nodes: 1}
	if len(agents) < len(r.allFed()) {
		err.Cluster = r.at(at).node.Cluster
	}
	for _, agent := range agents {
		err.Nodes += r.at(agent).links
	}
	return err
}
