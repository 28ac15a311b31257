package delivery

import (
	"fmt"
	"slices"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// A session agent that gives up a member has the member fail. A member that relays is no better than those that it feeds, and may say so of any
// of them: that is a complaint. Another agent feeds the member then, a session agent if there is one. Only if that one gives it up, too, or there
// is no other, or the tree has no room for the change, the member has failed: otherwise it would wait for ever.

// mayBeSlow reports whether a member of a delivery can be too slow at all.
func mayBeSlow(delivery view.Delivery) bool {
	slow := delivery.GetDelivery().GetSpec().GetSlowMember()
	switch slow.GetAction() {
	case groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT:
		return true
	case groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH:
		return false
	}
	return slow.GetFloorBytesPerSecond() > 0
}

// isGivenUp reports whether a member has failed because who feeds it gave it up. Where no member can be too slow, a relay alone says so only of one
// that lied, and the word of several counts no more than that of one.
func (p *progress) isGivenUp(member identity.ID, current *tree.Tree) bool {
	if !p.evicted(member, current) {
		return false
	}
	feeder, _ := current.Parent(member.String())
	before := p.complaints[member]
	return !isRelay(placement.ParseID(feeder).Name) || slices.Contains(before, feeder) || p.mayBeSlow && len(before) > 0
}

// moveGivenUp has another agent feed each member that a relay gave up. If there is none, the relay is believed at the next look.
func (r *rearrangement) moveGivenUp(delivery view.Delivery) {
	if !delivery.Running() || r.tree == nil {
		return
	}
	for _, name := range r.tree.Names() {
		member := placement.ParseID(name)
		if member.Role != identity.Member || !r.isComplainedOf(member) {
			continue
		}
		from, _ := r.tree.Parent(name)
		r.complaints[member] = from
		why := fmt.Sprintf("%s, a member that relays, gave it up", from)
		relays, before := r.relays(), r.complainedOf(member)
		if !r.moveElsewhere(member, causeUnfed, why, relays...) && !r.moveToSpare(member, causeUnfed, why, relays...) &&
			!r.moveToSpare(member, causeUnfed, why, before...) && !r.moveElsewhere(member, causeUnfed, why, before...) {
			r.due = r.now
		}
	}
}

// isComplainedOf reports whether the relay that feeds a member in the tree as it was and is gave it up, and is not believed.
func (r *rearrangement) isComplainedOf(member identity.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, _ := r.tree.Parent(member.String())
	return r.progress.evicted(member, r.tree) && isRelay(placement.ParseID(from).Name) && !r.progress.isGivenUp(member, r.tree)
}

// complainedOf returns the relays that gave a member up before.
func (r *rearrangement) complainedOf(member identity.ID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.progress.complaints[member])
}

// holdComplaints holds complaints against members, and reports whether there are new ones.
func (p *progress) holdComplaints(found map[identity.ID]string) (some bool) {
	for member, from := range found {
		if !slices.Contains(p.complaints[member], from) {
			p.complaints[member], some = append(p.complaints[member], from), true
		}
	}
	return some
}

// holdUnwritten holds the complaints of the rearrangement that was tried last, for which the tree has no room. It reports whether there are new ones.
func (k *keeper) holdUnwritten() (some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.progress.holdComplaints(k.unwritten)
}

// relays returns the agents that are members, of the tree and of those that could be in it.
func (r *rearrangement) relays() (names []string) {
	for _, agent := range r.network.Agents {
		if isRelay(agent.GetName()) {
			names = append(names, placement.AgentID(agent.GetName()).String())
		}
	}
	return append(names, slices.DeleteFunc(r.agents(), func(name string) bool { return !isRelay(placement.ParseID(name).Name) })...)
}
