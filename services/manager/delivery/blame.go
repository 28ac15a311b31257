package delivery

import (
	"slices"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// see returns what is seen of an agent of the tree, and who blames it.
func (k *keeper) see(id identity.ID) (seen sight, by identity.ID) {
	seen, alone := k.desk.seen(id.Name), k.reachesNobody(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	seen.blamed, by = k.blame(id, seen)
	if !alone.IsZero() && (seen.blamed.IsZero() || alone.Before(seen.blamed)) {
		seen.blamed, by = alone, id
	}
	seen.evicted, seen.full = k.progress.evicted(id, k.tree), k.progress.fullSince(id)
	return seen, by
}

// blame returns since when a neighbour says that an agent cannot be reached, and which neighbour. One whose word alone had another agent
// removed is not believed for a while, unless the manager does not hear this agent either: the neighbour may be cut off itself, and must not
// take the tree apart.
func (k *keeper) blame(agent identity.ID, seen sight) (since time.Time, by identity.ID) {
	for id, node := range k.progress.nodes {
		if node.lost != agent.Name || k.tree == nil || !k.neighbours(id, agent) || k.isLeftOut(id, agent) {
			continue
		}
		heard := time.Since(seen.heard) < silentPatience
		if heard && time.Since(k.believedAt[id]) < banTime {
			continue
		}
		if since.IsZero() || node.lostSince.Before(since) {
			since, by = node.lostSince, id
		}
	}
	return since, by
}

// reachesNobody returns since when an agent says that it cannot reach its feeder, if its word had the feeder before removed and the manager
// hears this one. That two feeders fail at once is less likely than that the agent itself does.
func (k *keeper) reachesNobody(agent identity.ID) (since time.Time) {
	lost, lostSince := k.lostBy(agent)
	if lost == "" || k.tree == nil || time.Since(k.believedAt[agent]) >= banTime {
		return since
	}
	name, _ := k.tree.Parent(agent.String())
	feeder := placement.ParseID(name)
	if feeder.Role != identity.Agent || feeder.Name != lost || time.Since(k.desk.seen(feeder.Name).heard) >= silentPatience {
		return since
	}
	return lostSince
}

// lostBy returns whom a node says that it cannot reach, and since when; nobody if it does not.
func (k *keeper) lostBy(id identity.ID) (lost string, since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if node := k.progress.nodes[id]; node != nil {
		lost, since = node.lost, node.lostSince
	}
	return lost, since
}

// neighbours reports whether an agent feeds a node, or is fed by it where the node is the sender.
func (k *keeper) neighbours(id, agent identity.ID) bool {
	parent, _ := k.tree.Parent(id.String())
	fedBy, _ := k.tree.Parent(agent.String())
	return parent == agent.String() || id.String() == k.tree.Sender() && fedBy == id.String()
}

// isLeftOut reports whether an agent was told not to feed a node below it, as nobody waits for that: what the node then says of it is no wonder.
func (k *keeper) isLeftOut(id, agent identity.ID) bool {
	told, has := k.assigned[agent]
	parent, _ := k.tree.Parent(id.String())
	return has && parent == agent.String() && !slices.ContainsFunc(told.GetChildren(), func(child *groupv1.Neighbour) bool { return identity.Named(child) == id })
}

// forgetBlame forgets what nodes said of neighbours that are new to them, given who fed each before. An agent that was absent is new to those that
// it feeds, and to the sender that feeds it. The keeper is locked.
func (k *keeper) forgetBlame(before map[identity.ID]feeding) {
	for id, by := range k.fedBy {
		if before[id] == by {
			continue
		}
		k.progress.nodes[id].forgetBlame()
		if by.by == k.tree.Sender() {
			k.progress.nodes[k.progress.sender].forgetBlame()
		}
	}
}

func (n *nodeProgress) forgetBlame() {
	if n != nil {
		n.lost, n.lostSince = "", time.Time{}
	}
}
