package delivery

import (
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// An agent may live, and its links with it, and yet move no byte: its disk hangs, or it lies. Its progress decides, not what it says of itself.
// It is idle in a delivery while no node below it gets anything although it could, and nobody else holds these nodes up. An agent that feeds
// somebody in another delivery is busy instead: its cache may be full.

// idleMemory is for how long an agent that was idle is used only where there is no other.
const idleMemory = 5 * time.Minute

// idleSince returns since when an agent of the tree is idle; zero if it is not. An agent that was found idle before is in a tree only for want
// of others. Once there are others again, the nodes that found it idle are believed again.
func (k *keeper) idleSince(agent identity.ID, others bool) time.Time {
	now := time.Now()
	wasIdle := k.desk.isIdle(agent.Name, k.group, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.judge(now, !others || !wasIdle).idleSince(agent)
}

// suspicion is after how long an agent that moves nothing seems idle.
const suspicion = idlePatience / 3

// suspects reports whether any agent of the tree seems idle: a node that moves now would put off the time when that is certain.
func (k *keeper) suspects(now time.Time) bool {
	return k.tree != nil && slices.ContainsFunc(k.tree.Names(), func(name string) bool {
		id := placement.ParseID(name)
		if id.Role != identity.Agent {
			return false
		}
		since := k.idleSince(id, true)
		return !since.IsZero() && now.Sub(since) > suspicion
	})
}

// fed returns who feeds a node that got more at exactly this time; nobody if it did not.
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

// isBusy reports whether an agent of the tree lately fed somebody, in any delivery.
func (k *keeper) isBusy(now time.Time) bool {
	return k.tree != nil && slices.ContainsFunc(k.tree.Names(), func(name string) bool {
		id := placement.ParseID(name)
		return id.Role == identity.Agent && now.Sub(k.desk.seen(id.Name).fed) < idlePatience
	})
}

// foundIdle remembers that an agent was idle, for the delivery's group: what its members say of an agent is no measure of it for others. It returns
// for how long the agent is to stay out of the delivery.
func (k *keeper) foundIdle(agent identity.ID) (banned time.Duration) {
	if k.progress.datagrams { // bytes may get through where datagrams do not: in other deliveries it is as good as any
		return idleMemory
	}
	k.desk.mu.Lock()
	defer k.desk.mu.Unlock()
	if k.desk.idle[agent.Name] == nil {
		k.desk.idle[agent.Name] = make(map[string]time.Time)
	}
	k.desk.idle[agent.Name][k.group] = time.Now().Add(idleMemory)
	return banTime
}

// isIdle reports whether an agent was lately found idle in a group, or in two others.
func (d *Desk) isIdle(agent, group string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.idle[agent]
	maps.DeleteFunc(found, func(_ string, until time.Time) bool { return !now.Before(until) })
	if len(found) == 0 {
		delete(d.idle, agent)
	}
	_, here := found[group]
	return here || len(found) > 1
}

// judge judges who is idle in a tree.
type judge struct {
	*progress
	tree   *tree.Tree
	fedBy  map[identity.ID]feeding
	now    time.Time
	doubts bool // nodes that found an agent idle may be to blame themselves
}

func (k *keeper) judge(now time.Time, doubts bool) judge {
	return judge{k.progress, k.tree, k.fedBy, now, doubts}
}

// idleSince returns since when an agent is idle; zero if it is not.
func (j judge) idleSince(agent identity.ID) time.Time {
	if since := j.givesNothing(agent); !since.IsZero() {
		return since
	}
	return j.takesNothing(agent)
}

// givesNothing returns since when an agent has given nothing to those that it feeds; zero if it gives something. If the only child that lacks
// something is an agent, that child is to blame, since it takes nothing. A child that has just come is not waited for.
func (j judge) givesNothing(agent identity.ID) (since time.Time) {
	if j.datagrams && j.feedsMost(agent) {
		return time.Time{}
	}
	var lacking []time.Time // since when
	var member time.Time    // since when a member lacks something
	for _, child := range j.children(agent) {
		if node := j.nodes[child]; node != nil && !j.datagrams {
			since = moment.Latest(since, node.bytesAt)
		}
		if !j.isAwaited(child) || !j.lacks(child, agent) || j.holdsUp(child) || !j.isReady(child, agent) {
			continue
		}
		lacking = append(lacking, j.lacksSince(child))
		if child.Role == identity.Member {
			member = moment.Soonest(member, j.lacksSince(child))
		}
	}
	to := member
	if slices.SortFunc(lacking, time.Time.Compare); len(lacking) > 1 {
		to = moment.Soonest(to, lacking[1])
	}
	if to.IsZero() {
		return time.Time{}
	}
	return moment.Latest(since, to, j.fedBy[agent].since)
}

// feedsMost reports whether an agent gives datagrams to some children, and at most one agent below it gets none, or no more agents than there
// are children that get some: then those agents are to blame themselves, or the way to them. Members that get none may be behind one firewall,
// however many they are.
func (j judge) feedsMost(agent identity.ID) bool {
	some, none := 0, 0
	for _, child := range j.children(agent) {
		switch {
		case !j.isAwaited(child):
		case j.gets(child):
			some++
		case child.Role == identity.Agent && j.lacks(child, agent) && j.isReady(child, agent):
			none++
		}
	}
	return some > 0 && (none < 2 || some >= none)
}

// takesNothing returns since when an agent has got nothing, although its feeder has more and gives others what they lack. One that nobody waits
// for is fed by nobody.
func (j judge) takesNothing(agent identity.ID) time.Time {
	feeder := j.feeder(agent)
	switch {
	case !j.isAwaited(agent), !j.lacks(agent, feeder), j.holdsUp(agent), !j.isReady(agent, feeder) && !j.isAskedFor(agent, feeder):
		return time.Time{}
	case feeder != j.sender && !j.givesNothing(feeder).IsZero():
		return time.Time{} // its feeder is to blame
	}
	node := j.nodes[agent]
	return moment.Latest(node.bytesAt, node.lostSince, j.lacksSince(agent), j.fedBy[feeder].since)
}

// holdsUp reports whether a node below this one has less than its own feeder: this one may wait for that, but never with datagrams, nor for a
// node that nobody waits for, such as a member that had all before a byte came.
func (j judge) holdsUp(id identity.ID) bool {
	return !j.datagrams && slices.ContainsFunc(j.children(id), func(child identity.ID) bool {
		return j.isAwaited(child) && (j.extent(child) < j.extent(id) || j.holdsUp(child))
	})
}

// isReady reports whether a node can be fed, by its own word and by its feeder's.
func (j judge) isReady(id, feeder identity.ID) bool {
	if !j.isWell(id, feeder) {
		return false
	}
	if feeder == j.sender || j.datagrams { // a sender reports no connections; in datagrams, only children that they reach count as connected
		return j.isHeard(feeder)
	}
	report := j.childReport(feeder, id)
	return report.GetConnected() && !report.GetWaits() && !report.GetEvicted()
}

// isAskedFor reports whether an agent should ask its feeder for more and, by all that is heard, could: a node below it waits, and nobody says
// that a link is lost. The feeder may have less than that node: it gets what it is asked for.
func (j judge) isAskedFor(agent, feeder identity.ID) bool {
	report := j.childReport(feeder, agent)
	if feeder == j.sender || !j.isWell(agent, feeder) || !j.isHeard(feeder) || report.GetWaits() || report.GetEvicted() {
		return false
	}
	wanted := j.extent(feeder)
	if j.sealed {
		wanted = j.length + 1
	}
	return slices.ContainsFunc(j.children(agent), func(child identity.ID) bool {
		return j.isAwaited(child) && j.extent(child) < wanted && j.isWell(child, agent)
	})
}

// isWell reports whether a node can be fed by its own word, as far as that is believed.
func (j judge) isWell(id, feeder identity.ID) bool {
	if j.doubts && j.isDoubted(link{feeder, id}, j.now) {
		return false
	}
	node := j.nodes[id]
	return j.isHeard(id) && node.lost == "" && node.report.GetTrouble() == "" && !node.report.GetPaused()
}

func (j judge) isHeard(id identity.ID) bool {
	node := j.nodes[id]
	return node != nil && j.now.Sub(node.at) <= heardPatience
}

func (j judge) feeder(id identity.ID) identity.ID {
	name, _ := j.tree.Parent(id.String())
	return placement.ParseID(name)
}

func (j judge) children(id identity.ID) (children []identity.ID) {
	for _, name := range j.tree.Children(id.String()) {
		children = append(children, placement.ParseID(name))
	}
	return children
}

// childReport returns what a node says of a child; nil if it says nothing.
func (p *progress) childReport(feeder, id identity.ID) *groupv1.ChildReport {
	return p.nodes[feeder].child(id)
}

// heardPatience is how long a report counts. Nodes report every second.
const heardPatience = 3 * time.Second

// extent returns how much a node has: its bytes, and one more if it knows that these are all.
func (p *progress) extent(id identity.ID) uint64 { return p.extentOf(p.nodes[id].reported()) }

func (p *progress) extentOf(report *groupv1.DeliveryReport) uint64 {
	if report.GetEnded() || p.sealed && p.length > 0 && report.GetBytes() >= p.length {
		return report.GetBytes() + 1
	}
	return report.GetBytes()
}
