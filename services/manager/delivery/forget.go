package delivery

import (
	"maps"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// goneMemory is for how long nodes that have gone are remembered: members that joined a stream late, and agents.
const goneMemory = 10 * time.Minute

// forgetGone forgets clusters of which nobody is in the tree any more, and what was said by and about nodes that have gone: members that joined
// a stream late, and agents. A stream may go on for months, while members come and go with ever new names, as pods do, and some of them relay.
// Of an object it may still matter how much a member that has gone has.
func (k *keeper) forgetGone(delivery view.Delivery, now time.Time) {
	if now.Sub(k.forgot) < goneMemory {
		return
	}
	k.forgot = now
	k.forgetClusters()
	if !delivery.GetDelivery().GetSpec().GetLengthUnknown() {
		return
	}
	maps.DeleteFunc(k.believedAt, func(_ identity.ID, at time.Time) bool { return now.Sub(at) >= banTime })
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.progress
	maps.DeleteFunc(p.nodes, func(id identity.ID, node *nodeProgress) bool {
		return now.Sub(node.at) >= goneMemory && k.mayBeForgotten(delivery, id)
	})
	isGone := func(id identity.ID) bool { return p.nodes[id] == nil && k.mayBeForgotten(delivery, id) }
	lately := make(map[identity.ID]bool) // got something
	maps.DeleteFunc(p.links, func(l link, carried *carriage) bool {
		if now.Sub(carried.last) < goneMemory {
			lately[l.to] = true
			return false
		}
		return l.from != p.sender && (isGone(l.from) || isGone(l.to)) // what the sender has sent counts
	})
	maps.DeleteFunc(p.doubted, func(_ link, of doubt) bool { return !now.Before(of.until) })
	maps.DeleteFunc(p.acked, func(name string, _ uint64) bool {
		id := placement.MemberID(name)
		return !lately[id] && isGone(id) && isGone(placement.AgentID(name))
	})
	maps.DeleteFunc(p.complaints, func(id identity.ID, _ []string) bool { return isGone(id) })
	maps.DeleteFunc(p.unknown, func(name string, gone absence) bool {
		return now.Sub(gone.found) >= goneMemory && isGone(placement.MemberID(name))
	})
}

func (k *keeper) forgetClusters() {
	there := make(map[string]bool)
	if k.tree != nil {
		for _, name := range k.tree.Names() {
			node, _ := k.tree.Node(name)
			there[node.Cluster] = true
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.told, func(cluster string, _ uint64) bool { return !there[cluster] })
}

// mayBeForgotten reports whether nobody needs a node any more that has been silent for long. The keeper is locked.
func (k *keeper) mayBeForgotten(delivery view.Delivery, id identity.ID) bool {
	if id == k.progress.sender || k.hasNode(id) {
		return false
	}
	if id.Role == identity.Member {
		return !isAtStart(delivery, id.Name)
	}
	_, known := k.desk.view.Agent(id.Name)
	return !known
}

// forgetAgents forgets agents that have long gone, once the store has forgotten them, too.
func (d *Desk) forgetAgents(now time.Time) {
	known := make(map[string]bool)
	for _, agent := range d.view.AllAgents() {
		known[agent.GetName()] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.agents, func(name string, agent *presence) bool {
		return agent.attachment == nil && !known[name] && now.Sub(agent.closed) >= goneMemory
	})
}

// hasNode reports whether a node is in the tree. The keeper is locked, or this is its goroutine, which alone changes the tree.
func (k *keeper) hasNode(id identity.ID) bool {
	if k.tree == nil {
		return false
	}
	_, has := k.tree.Node(id.String())
	return has
}
