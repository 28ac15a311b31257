package delivery

import (
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// An agent that feeds others may give one member nothing: the member cannot reach it, or the agent does so on purpose. The agent is of use to
// the others, so it is the member that goes elsewhere.

// feedsPatience is how long ago a child may last have got something for its agent to count as feeding it.
const feedsPatience = 5 * time.Second

// moveStarved has other agents feed the members that get nothing where they are.
func (r *rearrangement) moveStarved(delivery view.Delivery) {
	if !r.mayReshape(delivery) {
		return
	}
	starved := r.starved()
	for _, name := range r.tree.Names() {
		member := placement.ParseID(name)
		switch from, starves := starved[member]; {
		case !starves:
		case r.now.Before(from):
			r.due = moment.Soonest(r.due, from)
		default:
			by, _ := r.tree.Parent(name)
			r.moveUnfed(member, fmt.Sprintf("%s, which feeds others, gave it nothing", by))
		}
	}
}

// movesInstead moves a member that cannot reach its agent, instead of taking the agent out for all whom it feeds. It reports whether it moved
// the member.
func (r *rearrangement) movesInstead(member, agent identity.ID, delivery view.Delivery) bool {
	return delivery.Running() && member.Role == identity.Member && r.feedsOthers(agent, member) &&
		r.moveUnfed(member, fmt.Sprintf("it cannot reach %s, which feeds others", agent))
}

// moveUnfed has another agent feed a member to which its agent gave nothing: one that the tree did not use where that alone is near, or if
// there is no other. It is one that gave the member nothing before, or harmed it, only if all others did, too. It reports whether there is one.
func (r *rearrangement) moveUnfed(member identity.ID, why string) (moved bool) {
	from, _ := r.tree.Parent(member.String())
	but := r.wrongFor(member)
	if !r.moveAnywhere(member, why, but...) && (len(but) == 0 || !r.moveAnywhere(member, why)) {
		return false
	}
	r.doubt(placement.ParseID(from), member)
	r.unfed = append(r.unfed, member)
	return true
}

// avoidUnfed has another agent feed each member that was moved since it got nothing and would come back to where it got nothing, as when its new
// agent is lost. Where there is no other the member goes there all the same.
func (r *rearrangement) avoidUnfed(delivery view.Delivery) {
	if !delivery.Running() || r.tree == nil || r.keeper.tree == nil || len(r.history) == 0 {
		return
	}
	for _, receiver := range r.network.Receivers {
		member := placement.MemberID(receiver.GetName())
		from, _ := r.tree.Parent(member.String())
		before, _ := r.keeper.tree.Parent(member.String())
		if from != before && r.wasUnfedBy(placement.ParseID(from), member) && !slices.Contains(r.unfed, member) {
			r.moveAnywhere(member, from+" gave it nothing before", r.wrongFor(member)...)
		}
	}
}

// wrongFor returns the agents that gave a member nothing, or harmed it: before, or as this rearrangement has found.
func (r *rearrangement) wrongFor(member identity.ID) (agents []string) {
	agents = append(r.doubtedBy(member), r.harmedBy(member.String())...)
	for _, found := range []map[identity.ID]string{r.complaints, r.damaged} {
		if from, some := found[member]; some {
			agents = append(agents, from)
		}
	}
	return agents
}

// wasUnfedBy reports whether a member that was moved since it got nothing is not to be fed by an agent for that reason.
func (k *keeper) wasUnfedBy(agent, member identity.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	node := k.progress.nodes[member]
	return node != nil && node.unfed > 0 && k.progress.isDoubted(link{agent, member}, time.Now())
}

// moveAnywhere has another agent feed a member that got nothing, but none of those in but. It reports whether there is one.
func (r *rearrangement) moveAnywhere(member identity.ID, why string, but ...string) (moved bool) {
	return r.moveToNear(member, causeUnfed, why, but...) || r.moveElsewhere(member, causeUnfed, why, but...) || r.moveToSpare(member, causeUnfed, why, but...)
}

// moveElsewhere has another agent feed a member, but none of those in but. It reports whether there is one.
func (r *rearrangement) moveElsewhere(member identity.ID, cause, why string, but ...string) (moved bool) {
	_, enlarged := r.enlarged()
	return r.moveWithin(enlarged, member, cause, why, but...)
}

// moveToNear has an agent near a member feed it that the tree did not use, where those of the tree are far. Those in but count as if they were
// not there.
func (r *rearrangement) moveToNear(member identity.ID, cause, why string, but ...string) (moved bool) {
	there, enlarged := r.enlarged()
	with, near, err := there.WithNear(enlarged, member.String(), but...)
	if err != nil {
		return false
	}
	others := slices.DeleteFunc(with.Names(), func(name string) bool { return name == near })
	return r.moveWithin(with, member, cause, why, others...)
}

// moveToSpare has an agent feed a member that the tree did not use. Where the member's agent is the only one, that one feeds the other: it is
// of no use against damaged bytes. It is none of those in but.
func (r *rearrangement) moveToSpare(member identity.ID, cause, why string, but ...string) (moved bool) {
	there, enlarged := r.enlarged()
	with, err := there.WithSpare(enlarged, member.String(), but...)
	return err == nil && r.moveWithin(with, member, cause, why, but...)
}

// moveWithin moves a member within a tree that may have more agents than the present one.
func (r *rearrangement) moveWithin(enlarged *tree.Tree, member identity.ID, cause, why string, but ...string) (moved bool) {
	after, err := enlarged.Elsewhere(member.String(), but...)
	if err != nil {
		return false
	}
	r.tree = placement.Reduced(after, r.tree)
	r.seek.Keep(member.String(), r.now)
	to, _ := r.tree.Parent(member.String())
	r.because(cause, fmt.Sprintf("%s is fed by %s now: %s", member, to, why))
	return true
}

// starved returns the members to which their agents give nothing although they could, and feed others; and from when on each counts as starved.
func (k *keeper) starved() map[identity.ID]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	j, starved := k.judge(time.Now(), true), make(map[identity.ID]time.Time)
	for _, name := range k.tree.Names() {
		agent := placement.ParseID(name)
		if agent.Role != identity.Agent {
			continue
		}
		children := j.children(agent)
		given := j.thatGet(children)
		for _, child := range children {
			if node := k.progress.nodes[child]; node != nil && j.starves(child, agent) && hasOther(given, child) {
				starved[child] = moment.Latest(node.bytesAt, node.lostSince, j.lacksSince(child)).Add(j.starvePatience(node))
			}
		}
	}
	return starved
}

// longestStarving bounds how long a member of a stream in datagrams may get nothing. Where it gets something after each move and then nothing
// again, its own path may lose them, whoever feeds it.
const longestStarving = 8 * time.Minute

// starvePatience returns for how long a member may get nothing: of datagrams, twice as long after each move, until it has got them from one agent
// for longestStarving.
func (p *progress) starvePatience(node *nodeProgress) time.Duration {
	if !p.datagrams {
		return idlePatience
	}
	return min(idlePatience<<min(node.unfed, 10), longestStarving)
}

func (j judge) starves(child, agent identity.ID) bool {
	return child.Role == identity.Member && j.lacks(child, agent) && j.isReady(child, agent)
}

// feedsOthers reports whether an agent lately gave something to a node other than but.
func (k *keeper) feedsOthers(agent, but identity.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tree == nil {
		return false
	}
	j := k.judge(time.Now(), true)
	return hasOther(j.thatGet(j.children(agent)), but)
}

// thatGet returns which of some nodes lately got something from those that feed them.
func (j judge) thatGet(nodes []identity.ID) (get []identity.ID) {
	for _, id := range nodes {
		if j.gets(id) {
			get = append(get, id)
		}
	}
	return get
}

// hasOther reports whether there is a node other than one.
func hasOther(nodes []identity.ID, than identity.ID) bool {
	return slices.ContainsFunc(nodes, func(id identity.ID) bool { return id != than })
}
