package tree

import "time"

// aside tells how far an agent is from the rest of its cluster: the sum of its hops, less what
// they would be without a measurement of their own. The most central has the least.
func (t *Tree) aside(agent int) (sum time.Duration) {
	p := t.at(agent)
	if p.node.Cluster == "" {
		return 0
	}
	usual := assumedInside
	if rtt, measured := t.dist.clusters[ordered(p.label, p.label)]; measured {
		usual = rtt / 2
	}
	for _, name := range t.dist.peers[p.id] {
		if peer, known := t.index.find(name); known && t.at(peer).node.Cluster == p.node.Cluster {
			hop, _ := t.dist.hop(p, t.at(peer))
			sum += hop - usual
		}
	}
	return sum
}

// reach is what it takes from a node over an agent to the rest of the agent's cluster, in the
// mean, but for what is alike for all of them.
func (d *draft) reach(c *cluster, from, agent int) time.Duration {
	return d.hop(from, agent) + d.aside(agent)/time.Duration(max(c.needs(), 1))
}
