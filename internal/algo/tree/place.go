package tree

import (
	"slices"
	"time"
)

// use notes that a parent feeds a node from outside its cluster.
func (d *draft) use(parent int) {
	c := d.clusters[d.inside[parent]]
	c.spare--
	d.spare--
	d.fill(c, parent)
	d.makeRoom(c)
}

// open attaches the cluster's next agent, which then can feed others.
func (d *draft) open(c *cluster, parent int) {
	agent := c.agents[c.placed]
	d.attach(agent, parent)
	c.placed++
	c.open = append(c.open, agent)
	c.free += d.free[agent]
}

// fill takes one of the places that an agent has free.
func (d *draft) fill(c *cluster, parent int) {
	d.free[parent]--
	c.free--
	if d.free[parent] == 0 {
		at := slices.Index(c.open, parent)
		c.open = slices.Delete(c.open, at, at+1)
	}
}

// makeRoom places agents of the cluster until it can feed one node from outside in addition to its own next agent.
func (d *draft) makeRoom(c *cluster) {
	for c.spare > 0 && c.free < 2 && c.placed < len(c.agents) {
		d.placeAgent(c)
	}
}

// placeAgent attaches the cluster's next agent inside of it.
func (d *draft) placeAgent(c *cluster) {
	parent := d.best(c.open, c.agents[c.placed], total).agent
	d.fill(c, parent)
	d.open(c, parent)
}

// placeAgents attaches those agents of a cluster that are not attached yet.
func (d *draft) placeAgents(c *cluster) {
	if rest := c.agents[c.placed:]; d.byLatency {
		slices.SortFunc(rest, func(a, b int) int { return d.compareFrom(c.agents[0], a, b) })
	}
	for c.placed < len(c.agents) {
		d.placeAgent(c)
	}
}

// placeInside attaches what the entered clusters feed inside: first their other agents, then the
// members that have no agent beside them.
func (d *draft) placeInside() {
	for _, c := range d.entered {
		d.placeAgents(c)
		for _, member := range c.members {
			parent := d.best(c.open, member, total).agent
			d.fill(c, parent)
			d.attach(member, parent)
		}
	}
}

// placeOutside attaches the members that belong to no cluster with agents.
func (d *draft) placeOutside() {
	by := nearest
	if d.byLatency {
		by = total
	}
	for _, member := range d.outside {
		parent := d.bestOutside(d.entered, member, by)
		d.use(parent)
		d.attach(member, parent)
	}
}

// bestOutside returns the best parent for a node among the agents of the entered clusters that can feed nodes from outside.
func (d *draft) bestOutside(entered []*cluster, child int, by choice) int {
	best, found := offer{}, false
	for _, c := range entered {
		if c.spare <= 0 {
			continue
		}
		if other := d.best(c.open, child, by); !found || other.compare(best) < 0 {
			best, found = other, true
		}
	}
	return best.agent
}

// bestEntry returns the best parent for a cluster's gateway.
func (d *draft) bestEntry(gateway int) int {
	shortest := d.bestOutside(d.entered, gateway, total)
	if d.byLatency {
		return shortest
	}
	return d.bestOutside(d.entered, gateway, d.thrifty(shortest, gateway))
}

// hop returns what the hop between two nodes costs.
func (t *Tree) hop(from, to int) time.Duration {
	hop, _ := t.dist.hop(t.at(from), t.at(to))
	return hop
}
