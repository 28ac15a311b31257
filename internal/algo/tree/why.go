package tree

import (
	"fmt"
	"time"
)

// Why explains in words why a node sits where it does, by what was known of it. For a node that is
// not in the tree it returns nothing.
func (t *Tree) Why(name string) string {
	at, known := t.index.find(name)
	if !known {
		return ""
	}
	why := t.rule(at)
	if parent := t.at(at).parent; parent != none && t.beside(at) != parent && t.beside(parent) != at {
		if rtt, measured := t.dist.rtt(t.at(parent), t.at(at)); measured {
			why += fmt.Sprintf("; at most %v from there and back", rtt) // the bound may have been rounded up
		}
	}
	if late, limit := t.late(at), t.bound.MaxLatency; late > 0 {
		why += fmt.Sprintf("; %v from the sender, where the bound is %v", late, limit)
	}
	if uplink := t.at(at).node.Uplink; uplink > 0 {
		why += fmt.Sprintf("; it carries %.1f MB/s", float64(uplink)/1e6)
	}
	return why
}

// late returns how far a member is from the sender if that exceeds the bound, else 0.
func (t *Tree) late(at int) time.Duration {
	if t.bound.MaxLatency == 0 || t.agent(at) {
		return 0
	}
	ways := t.ways()
	if path, fed := ways.to(at); fed && path.latency.Measured > t.bound.MaxLatency {
		return path.latency.Measured
	}
	return 0
}

// rule says which rule gave a node its place.
func (t *Tree) rule(at int) string {
	p := t.at(at)
	switch {
	case at == 0 && len(p.children) == 1 && t.agent(p.children[0]):
		return "the sender: one link carries all"
	case at == 0:
		return "the sender: without an agent it feeds everybody"
	case !t.agent(at):
		return t.memberRule(at)
	case p.parent == none:
		return "nobody feeds it"
	case p.parent == 0:
		return t.ingressRule(at)
	case t.fedInside(at):
		return fmt.Sprintf("fed inside %s%s, where %s", p.node.Cluster, t.levelRule(at), t.limitRule(at))
	case p.node.Cluster != "":
		return fmt.Sprintf("the one that enters %s%s%s, where %s", p.node.Cluster, t.gatewayRule(at), t.wayRule(at), t.limitRule(at))
	}
	return "an agent without zone: " + t.limitRule(at)
}

func (t *Tree) memberRule(at int) string {
	p := t.at(at)
	switch {
	case p.parent == none:
		return "nobody feeds it"
	case t.beside(at) == p.parent:
		return "beside its agent"
	case p.parent == 0:
		return "fed by the sender: there is no agent"
	case t.fedInside(at):
		return "of the agent's cluster, " + p.node.Cluster
	case t.beside(at) != none:
		return "away from the agent beside it: it was moved, or that one has just come"
	case t.home(at) != none:
		return fmt.Sprintf("away from the agents of its cluster, %s: it was moved, or these have just come", p.node.Cluster)
	}
	return "the nearest agent with room: none is of its cluster"
}

func (t *Tree) ingressRule(at int) string {
	sender, node := t.at(0), t.at(at).node
	switch {
	case sender.node.Agent == node.Name:
		return "beside the sender"
	case sender.node.Cluster != "" && sender.node.Cluster == node.Cluster:
		return "of the sender's cluster, " + node.Cluster
	}
	return "the nearest to the sender, or the strongest: none is of its cluster"
}

// levelRule says of an agent that its cluster feeds whether it is below another for its uplink. That may have been found out, for which
// the agent was moved lower.
func (t *Tree) levelRule(at int) string {
	p := t.at(at)
	if t.at(p.parent).node.Capacity() > p.node.Capacity() {
		return " by a stronger agent"
	}
	return ""
}

// gatewayRule says what an agent that enters its cluster has before the others there. It says nothing if it is alone, or if one is stronger: that
// one came later, or was moved, or paths are bounded.
func (t *Tree) gatewayRule(at int) string {
	var weaker, equal bool
	own := t.at(at).node.Capacity()
	for _, agent := range t.sites.at(t.at(at).site).agents {
		switch other := t.at(agent).node.Capacity(); {
		case other > own:
			return ""
		case other < own:
			weaker = true
		case agent != at:
			equal = true
		}
	}
	switch {
	case equal && t.isCentral(at):
		return ", one of its strongest agents, of which none is more central"
	case equal:
		return ", one of its strongest agents"
	case weaker:
		return ", its strongest agent"
	}
	return ""
}

// wayRule says of an agent with no member in its cluster for how many agents of others it is there, if it copies for them. Whether it was added to
// the tree for that (Node.Transit) is not stored with the tree.
func (t *Tree) wayRule(at int) string {
	p, elsewhere := t.at(at), 0
	if site := t.sites.at(p.site); site.nodes > len(site.agents) {
		return ""
	}
	for _, child := range p.children {
		if !t.agent(child) {
			return ""
		}
		elsewhere += rank(t.at(child).site != p.site)
	}
	if elsewhere < 2 {
		return ""
	}
	return fmt.Sprintf(", on the way to %d agents elsewhere, for which one copy comes to it", elsewhere)
}

// limitRule says how many children an agent may have, and why.
func (t *Tree) limitRule(at int) string {
	switch suits := t.suits(at); {
	case t.bound.FanOut > 0:
		return fmt.Sprintf("each feeds at most %d", t.bound.FanOut)
	case suits != t.fanOut:
		return fmt.Sprintf("feeding %d suits its uplink, where others feed %d", suits, t.fanOut)
	case t.fanOut == 1:
		return "a chain suits so much: every uplink carries one copy"
	}
	return fmt.Sprintf("each feeding %d suits what is sent", t.fanOut)
}
