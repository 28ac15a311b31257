package tree

import "time"

// aside returns how far an agent is from the rest of its cluster: the sum of its measured hops
// there, less what these hops would cost if only the cluster's usual round trip were known. The
// most central agent has the smallest sum.
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

// isCentral reports whether no other agent of its cluster that is as strong as an agent is more central, and one is less.
func (t *Tree) isCentral(agent int) (is bool) {
	p := t.at(agent)
	if t.dist.light {
		return t.dist.central[p.node.Name]
	}
	if p.node.Cluster == "" {
		return false
	}
	aside := t.aside(agent)
	for _, other := range t.sites.at(p.site).agents {
		if other == agent || t.at(other).node.Capacity() != p.node.Capacity() {
			continue
		}
		others := t.aside(other)
		if others < aside {
			return false
		}
		is = is || others > aside
	}
	return is
}

// reach returns the mean cost from a node, over an agent, to the rest of the agent's cluster. What
// is the same for all agents of the cluster is left out.
func (d *draft) reach(c *cluster, from, agent int) time.Duration {
	return d.hop(from, agent) + d.aside(agent)/time.Duration(max(c.needs(), 1))
}
