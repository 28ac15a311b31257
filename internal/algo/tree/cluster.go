package tree

import (
	"cmp"
	"slices"
)

// cluster is a cluster with agents while Build works on it. An agent without a label is a
// cluster of its own.
type cluster struct {
	label   string
	agents  []int // the gateway first, the others by strength
	members []int // members fed inside over a link, by strength
	places  int   // how many nodes its agents may feed
	raise   int   // how many more than suits it each agent may feed
	extra   int   // how many more its gateway may feed
	spare   int   // how many nodes from outside the cluster it can feed
	wanted  bool  // it has members, or is the cluster nearest to a member
	placed  int   // how many of the agents are placed
	open    []int // placed agents that are free to feed another
	free    int   // how many more nodes these can feed
}

func (c *cluster) leadBy(gateway int) {
	at := slices.Index(c.agents, gateway)
	copy(c.agents[1:at+1], c.agents[:at])
	c.agents[0] = gateway
}

// needs returns how many nodes the cluster's agents feed inside of it.
func (c *cluster) needs() int { return len(c.agents) - 1 + len(c.members) }

// raiseBy lets each agent of the cluster feed so many more nodes than suit its uplink.
func (d *draft) raiseBy(c *cluster, more int) {
	c.raise, c.places = more, len(c.agents)*more
	for _, agent := range c.agents {
		c.places += d.allowed(agent, d.limit)
	}
	c.spare = c.places + c.extra - c.needs()
}

// formClusters finds out in which cluster each node is fed.
func (d *draft) formClusters() {
	order := d.inOrder()
	d.inside = d.homes(order)
	for _, i := range order {
		home := d.inside[i]
		switch {
		case d.agent(i) && home == len(d.clusters):
			d.clusters = append(d.clusters, &cluster{label: d.at(i).node.Cluster, agents: []int{i}})
		case d.agent(i):
			d.clusters[home].agents = append(d.clusters[home].agents, i)
		}
	}
	for _, i := range order[1:] {
		switch home := d.inside[i]; {
		case d.agent(i):
		case d.beside(i) != none:
			d.attach(i, d.beside(i))
			d.clusters[home].wanted = true
		case home == none:
			d.outside = append(d.outside, i)
		default:
			d.clusters[home].members = append(d.clusters[home].members, i)
		}
	}
}

// homes returns, for each place, the number of its cluster, or none. Only clusters with agents have
// numbers, in the order of their strongest agents.
func (t *Tree) homes(order []int) []int {
	numbers, homes, next := map[string]int{}, make([]int, t.places.length), 0
	for _, i := range order {
		if !t.agent(i) {
			continue
		}
		label := t.at(i).node.Cluster
		number, known := numbers[label]
		if !known || label == "" {
			number, next = next, next+1
			numbers[label] = number
		}
		homes[i] = number
	}
	delete(numbers, "")
	for _, i := range order {
		if t.agent(i) {
			continue
		}
		number, known := numbers[t.at(i).node.Cluster]
		if homes[i] = number; !known {
			homes[i] = none
		}
		if agent := t.beside(i); agent != none {
			homes[i] = homes[agent]
		}
	}
	return homes
}

// spareWeak lets a chain's gateway feed one more where the chain ends at a weak agent: that agent
// would hold up all clusters that it feeds.
func (d *draft) spareWeak() {
	for _, c := range d.clusters {
		strongest, weakest := d.at(c.agents[0]).node.Capacity(), d.at(c.agents[len(c.agents)-1]).node.Capacity()
		c.extra = rank(d.bound.FanOut == 0 && d.allowed(c.agents[0], d.limit) == 1 && weakest < strongest/2)
	}
}

// setLimits decides how many nodes each agent feeds at most, and returns the ingress. If the bound
// gives no fan-out limit, the limit is raised as little as needed: first in the clusters that are
// short of places, then in all.
func (d *draft) setLimits() (ingress int, err error) {
	d.spareWeak()
	for raise := 0; ; raise++ {
		for _, c := range d.clusters {
			d.raiseBy(c, raise)
			if c.spare < 0 && d.bound.FanOut > 0 {
				return none, &FanOutError{c.label, d.limit, c.places, c.needs()}
			}
			if c.spare < 0 {
				d.raiseBy(c, raise+(len(c.agents)-1-c.spare)/len(c.agents))
			}
		}
		ingress = d.chooseIngress()
		err = d.roomForAll(d.clusters[d.inside[ingress]])
		if err == nil || d.bound.FanOut > 0 {
			return ingress, err
		}
	}
}

// roomForAll reports whether the clusters can feed each other's gateways and those outside.
// They can if the root can feed one and all together can feed all: a cluster that can feed
// one or more, entered first, leaves as much room as it takes.
func (d *draft) roomForAll(root *cluster) error {
	spare, need := 0, len(d.clusters)-1+len(d.outside)
	for _, c := range d.clusters {
		spare += c.spare
	}
	if need == 0 || root.spare > 0 && spare >= need {
		return nil
	}
	if root.spare == 0 {
		return &FanOutError{root.label, d.limit, root.places, root.needs() + 1}
	}
	places := 0
	for _, c := range d.clusters {
		places += c.places
	}
	return &FanOutError{"", d.limit, places, d.places.length - 2}
}

// freePlaces lets every agent feed as many as it may.
func (d *draft) freePlaces() {
	for _, c := range d.clusters {
		for _, agent := range c.agents {
			d.free[agent] = d.allowed(agent, d.limit) + c.raise
		}
		d.free[c.agents[0]] += c.extra
	}
}

// byGatewayOrder orders clusters: the one to enter first goes first.
func (d *draft) byGatewayOrder(ingress int) func(a, b *cluster) int {
	return func(a, b *cluster) int {
		gateA, gateB := d.at(a.agents[0]), d.at(b.agents[0])
		return cmp.Or(
			rank(b.wanted)-rank(a.wanted),
			cmp.Compare(d.hop(ingress, a.agents[0]), d.hop(ingress, b.agents[0])),
			cmp.Compare(gateB.node.Capacity(), gateA.node.Capacity()),
			cmp.Compare(b.needs(), a.needs()),
			d.compareOrder(a.agents[0], b.agents[0]),
		)
	}
}
