package delivery

import (
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// An agent may live, and its links with it, and yet move no byte: its disk hangs, or it lies. Its
// progress decides, not what it says of itself: it is idle in a delivery while nobody below it gets
// anything who could, and nobody else holds them up. One that feeds somebody in another delivery is
// busy: its cache may be full.

// idleMemory is for how long an agent that was idle is used only where there is no other.
const idleMemory = 5 * time.Minute

// idleSince returns since when an agent of the tree is idle; zero if it is not.
func (k *keeper) idleSince(agent identity.ID) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since := k.progress.idleSince(agent, k.tree, time.Now()); !since.IsZero() {
		return later(since, k.treeAt)
	}
	return time.Time{}
}

// fed returns who feeds a node that has got more at a time; nobody if it has not.
func (k *keeper) fed(id identity.ID, now time.Time) (feeder identity.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if node := k.progress.nodes[id]; node == nil || k.tree == nil || !node.bytesAt.Equal(now) {
		return feeder
	}
	name, _ := k.tree.Parent(id.String())
	return placement.ParseID(name)
}

func (d *Desk) noteFed(agent string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.agents[agent]; a != nil {
		a.fed = now
	}
}

// isBusy tells whether an agent of the tree lately fed somebody, in whatever delivery.
func (k *keeper) isBusy(now time.Time) bool {
	return k.tree != nil && slices.ContainsFunc(k.tree.Names(), func(name string) bool {
		id := placement.ParseID(name)
		return id.Role == identity.Agent && now.Sub(k.desk.seen(id.Name).fed) < idlePatience
	})
}

// foundIdle remembers an agent that was idle, and by whom it was found so: who gets nothing from
// another either may be to blame itself, and is not heeded again until it has got more.
func (k *keeper) foundIdle(agent identity.ID) {
	k.mu.Lock()
	k.progress.doubt(agent, k.tree)
	k.mu.Unlock()
	k.desk.mu.Lock()
	defer k.desk.mu.Unlock()
	k.desk.idle[agent.Name] = time.Now().Add(idleMemory)
}

func (d *Desk) isIdle(agent string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, was := d.idle[agent]
	if was && !now.Before(until) {
		delete(d.idle, agent)
	}
	return was && now.Before(until)
}

func (p *progress) doubt(agent identity.ID, t *tree.Tree) {
	feeder, _ := t.Parent(agent.String())
	p.doubted[link{placement.ParseID(feeder), agent}] = p.bytes(agent)
	for _, name := range t.Children(agent.String()) {
		child := placement.ParseID(name)
		p.doubted[link{agent, child}] = p.bytes(child)
	}
}

// idleSince returns since when an agent of a tree is idle; zero if it is not.
func (p *progress) idleSince(agent identity.ID, t *tree.Tree, now time.Time) time.Time {
	if since := p.givesNothing(agent, t, now); !since.IsZero() {
		return since
	}
	return p.takesNothing(agent, t, now)
}

// givesNothing returns since when nobody got anything whom an agent feeds. Where the only one that lacks
// something is an agent, it is that one, which takes nothing, that is to blame.
func (p *progress) givesNothing(agent identity.ID, t *tree.Tree, now time.Time) (since time.Time) {
	lacking, members := 0, 0
	for _, name := range t.Children(agent.String()) {
		child := placement.ParseID(name)
		if node := p.nodes[child]; node != nil {
			since = later(since, node.bytesAt)
		}
		if p.bytes(child) >= p.bytes(agent) || p.holdsUp(child, t) || !p.isReady(child, agent, now) {
			continue
		}
		lacking++
		if child.Role == identity.Member {
			members++
		}
	}
	if members > 0 || lacking > 1 {
		return later(since, p.begun)
	}
	return time.Time{}
}

// takesNothing returns since when an agent got nothing, though whoever feeds it has more, and gives
// to others what they lack.
func (p *progress) takesNothing(agent identity.ID, t *tree.Tree, now time.Time) time.Time {
	name, _ := t.Parent(agent.String())
	feeder := placement.ParseID(name)
	there := p.bytes(feeder)
	if feeder == p.sender && p.sealed {
		there = p.length
	}
	switch {
	case p.bytes(agent) >= there, p.holdsUp(agent, t), !p.isReady(agent, feeder, now):
		return time.Time{}
	case feeder != p.sender && !p.givesNothing(feeder, t, now).IsZero():
		return time.Time{} // its feeder is to blame
	}
	return later(p.nodes[agent].bytesAt, p.begun)
}

// holdsUp tells whether somebody below a node lacks what the one has that feeds it: the node may wait for that.
func (p *progress) holdsUp(id identity.ID, t *tree.Tree) bool {
	for _, name := range t.Children(id.String()) {
		if child := placement.ParseID(name); p.bytes(child) < p.bytes(id) || p.holdsUp(child, t) {
			return true
		}
	}
	return false
}

// isReady tells whether a node can be fed by its own word, and by that of the one that feeds it.
func (p *progress) isReady(id, feeder identity.ID, now time.Time) bool {
	node := p.nodes[id]
	if bytes, doubted := p.doubted[link{feeder, id}]; doubted && bytes == p.bytes(id) {
		return false
	}
	if node == nil || now.Sub(node.at) > heardPatience || node.lost != "" || node.report.GetTrouble() != "" {
		return false
	}
	if feeder == p.sender {
		return now.Sub(p.nodes[feeder].heard()) <= heardPatience
	}
	for _, child := range p.nodes[feeder].reported().GetChildren() {
		if child.GetName() == id.Name {
			return child.GetConnected() && !child.GetWaits() && !child.GetEvicted()
		}
	}
	return false
}

// heardPatience is how long a word counts that nodes repeat every second.
const heardPatience = 3 * time.Second

func (n *nodeProgress) heard() time.Time {
	if n == nil {
		return time.Time{}
	}
	return n.at
}

func (p *progress) bytes(id identity.ID) uint64 { return p.nodes[id].reported().GetBytes() }
