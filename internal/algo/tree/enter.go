package tree

import (
	"slices"
	"time"
)

// want finds the clusters that are there for members: members' own, and those that are the nearest to
// a member without a cluster. The others are entered last: they would only be in the way.
func (d *draft) want() {
	isTransit := func(agent int) bool { return d.at(agent).node.Transit }
	for _, c := range d.clusters {
		c.wanted = c.wanted || len(c.members) > 0 || slices.ContainsFunc(c.agents, isTransit)
	}
	for _, member := range d.outside {
		if nearest := d.nearestCluster(member); nearest != nil {
			nearest.wanted = true
		}
	}
}

// nearestCluster returns the cluster of the agent that is nearest to a member, of the agents that it has measured or that are in
// its zone; nil if there is none.
func (d *draft) nearestCluster(member int) (nearest *cluster) {
	var shortest time.Duration
	for _, c := range d.clusters {
		for _, agent := range c.agents {
			hop, unmeasured := d.dist.hop(d.at(agent), d.at(member))
			known := unmeasured == 0 || SameZone(c.label, d.at(member).node.Cluster)
			if known && (nearest == nil || hop < shortest) {
				nearest, shortest = c, hop
			}
		}
	}
	return nearest
}

// queue enters the ingress's cluster and lets the others wait.
func (d *draft) queue(ingress int) {
	root := d.clusters[d.inside[ingress]]
	d.waiting = slices.DeleteFunc(slices.Clone(d.clusters), func(c *cluster) bool { return c == root })
	slices.SortFunc(d.waiting, d.byGatewayOrder(ingress))
	d.enter(root, 0)
}

// enterWanted enters the clusters that are wanted. It enters others only to have room for
// members without a cluster, and for a cluster that still waits.
func (d *draft) enterWanted() {
	for len(d.waiting) > 0 && (d.waiting[0].wanted || d.spare <= len(d.outside)) {
		d.enterNext()
	}
}

// enterAll enters the rest.
func (d *draft) enterAll() {
	for len(d.waiting) > 0 {
		d.enterNext()
	}
	for _, c := range d.clusters {
		d.placeAgents(c)
	}
}

// enterNext enters the next waiting cluster or, if there is room for one only, the next one that brings room.
func (d *draft) enterNext() {
	at := 0
	if d.spare == 1 {
		at = max(0, slices.IndexFunc(d.waiting, func(c *cluster) bool { return c.spare > 0 }))
	}
	c := d.waiting[at]
	d.waiting = slices.Delete(d.waiting, at, at+1)
	d.enter(c, d.bestEntry(c.agents[0]))
}

// enter attaches a cluster's gateway.
func (d *draft) enter(c *cluster, parent int) {
	if parent != 0 {
		d.use(parent)
	}
	d.open(c, parent)
	d.makeRoom(c)
	d.entered = append(d.entered, c)
	d.spare += c.spare
}
