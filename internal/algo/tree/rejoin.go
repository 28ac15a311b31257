package tree

import (
	"cmp"
	"slices"
)

// repair is a tree while nodes of it have no parent.
type repair struct {
	*Tree
	homes   []int // the cluster of each place, or none
	reached []int // the agents that are fed
}

func (t *Tree) repair() *repair {
	r := &repair{Tree: t, homes: t.homes()}
	r.reach(0)
	return r
}

// reach notes that a node and those below it are fed.
func (r *repair) reach(at int) {
	if r.agent(at) {
		r.reached = append(r.reached, at)
	}
	for _, child := range r.places[at].children {
		r.reach(child)
	}
}

// adopt gives the orphans of a cluster's dead agent new parents. Those that go where the
// choice is small come first, and of these the agents that bring room; so it fails only if
// no choice of parents for them fits. If the dead was the gateway, the first is the next.
func (r *repair) adopt(orphans []int, cluster string) error {
	slices.SortFunc(orphans, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(r.turn(a, cluster), r.turn(b, cluster)),
			rank(r.bringsRoom(b, cluster))-rank(r.bringsRoom(a, cluster)),
			Stronger(r.places[a].node, r.places[b].node),
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

// makeWay puts an agent from outside the cluster to the front if those inside, whose next
// gateway would otherwise be first, leave no room for any. A cluster with a gateway needs no
// other, and a sender in its own cluster stays there.
func (r *repair) makeWay(orphans []int, cluster string) {
	room, led := 0, false
	for _, agent := range r.reached {
		room += max(0, r.fanOut-r.links(agent))
		led = led || cluster != "" && r.places[agent].node.Cluster == cluster
	}
	if len(r.reached) == 0 {
		room, led = room+1, r.homes[0] != none && r.places[0].node.Cluster == cluster
	}
	for i, orphan := range orphans {
		outside := r.turn(orphan, cluster) >= 2
		if !outside {
			room += r.room(orphan, "", false) - 1
		}
		if outside && r.agent(orphan) && r.room(orphan, "", false) > 0 && room <= 0 && !led {
			copy(orphans[1:i+1], orphans[:i])
			orphans[0] = orphan
			return
		}
	}
}

// turn is when an orphan chooses: the agents and then the members that were fed inside the
// cluster, then agents and then members that can go anywhere.
func (r *repair) turn(orphan int, cluster string) int {
	local := cluster != "" && r.places[orphan].node.Cluster == cluster && r.homes[orphan] != none
	return 2*rank(!local) + rank(!r.agent(orphan))
}

// bringsRoom tells whether other orphans may hang below this one: those of its cluster if
// it was fed inside it, all if not.
func (r *repair) bringsRoom(at int, cluster string) bool {
	inside := cluster != "" && r.places[at].node.Cluster == cluster
	return r.room(at, cluster, inside) > 0
}

func (r *repair) room(at int, cluster string, inside bool) int {
	p, room := &r.places[at], 0
	if r.agent(at) && (!inside || p.node.Cluster == cluster) {
		room = max(0, r.fanOut-r.links(at))
	}
	for _, child := range p.children {
		room += r.room(child, cluster, inside)
	}
	return room
}

// rejoin attaches a node, with all below it, to the best parent that has room.
func (r *repair) rejoin(at int) error {
	if beside := r.beside(at); beside != none && slices.Contains(r.reached, beside) {
		r.goBeside(at)
		r.attach(at, beside)
		return nil
	}
	if len(r.reached) == 0 {
		r.attach(at, 0)
		r.reach(at)
		return nil
	}
	parents := r.parents(at)
	roomy := r.withRoom(parents)
	if len(roomy) == 0 {
		return r.full(at, parents)
	}
	r.attach(at, r.choose(roomy, at))
	r.reach(at)
	return nil
}

// parents returns the agents that may feed a node: those of its cluster if any is fed.
func (r *repair) parents(at int) []int {
	var own []int
	for _, agent := range r.reached {
		if r.homes[agent] == r.homes[at] {
			own = append(own, agent)
		}
	}
	if len(own) > 0 {
		return own
	}
	return r.reached
}

// withRoom returns the agents that can feed another. Without a limit given there is always
// one: if need be those that feed fewest.
func (r *repair) withRoom(agents []int) (roomy []int) {
	limit, fewest := r.fanOut, len(r.places)
	for _, agent := range agents {
		fewest = min(fewest, r.links(agent))
	}
	if r.bound.FanOut == 0 {
		limit = max(limit, fewest+1)
	}
	for _, agent := range agents {
		if r.links(agent) < limit {
			roomy = append(roomy, agent)
		}
	}
	return roomy
}

// choose returns the best of several parents.
func (r *repair) choose(agents []int, at int) int {
	if r.homes[at] == none {
		return r.best(agents, at, r.nearest)
	}
	return r.best(agents, at, r.total)
}

func (r *repair) full(at int, agents []int) error {
	err := &FanOutError{Limit: r.fanOut, Places: r.fanOut * len(agents), Nodes: 1}
	if len(agents) < len(r.reached) {
		err.Cluster = r.places[at].node.Cluster
	}
	for _, agent := range agents {
		err.Nodes += r.links(agent)
	}
	return err
}
