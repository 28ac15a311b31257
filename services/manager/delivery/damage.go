package delivery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// What a member got may turn out not to be what was sent: an agent on the way, or its disk, has damaged it. The member takes it again, over
// another way.

// damagedMost is how often a member moves for that in one delivery, since it may claim what it likes.
const damagedMost = 2

// moveDamaged has another agent feed each member that got damaged bytes: one whose members have the right bytes, if there is one, else one that
// the damaged bytes did not come over, else any other.
func (r *rearrangement) moveDamaged(delivery view.Delivery) {
	if isDatagrams(delivery) || !delivery.Running() || r.tree == nil {
		return
	}
	for _, name := range r.tree.Names() {
		member := placement.ParseID(name)
		if !r.gotDamaged(member) {
			continue
		}
		from, _ := r.tree.Parent(name)
		right := r.gaveRight(delivery, from)
		suspects := slices.DeleteFunc(r.tree.Path(name), func(node string) bool { return !r.isAgent(node) || slices.Contains(right, node) })
		why := fmt.Sprintf("it got damaged bytes over %s", strings.Join(suspects, " or "))
		untried := slices.DeleteFunc(r.agents(), func(agent string) bool { return slices.Contains(right, agent) })
		for _, but := range [][]string{untried, suspects, {from}} {
			if r.moveElsewhere(member, causeDamaged, why, but...) {
				r.damaged[member] = from
				r.desk.log.Warn("a member got damaged bytes", "delivery", r.id, "member", member.Name, "suspects", suspects)
				break
			}
		}
	}
}

// avoidHarm has another agent feed each member that would come to be fed again by one that gave it damaged bytes, since it takes all anew only
// once, or by a relay that gave it up, which would be believed the second time. Where there is no other the member goes there all the same.
func (r *rearrangement) avoidHarm(delivery view.Delivery) {
	if !delivery.Running() || r.tree == nil || r.keeper.tree == nil || len(r.history) == 0 {
		return
	}
	for _, receiver := range r.network.Receivers {
		member := placement.MemberID(receiver.GetName())
		harmed := r.harmedBy(member.String())
		from, _ := r.tree.Parent(member.String())
		before, _ := r.keeper.tree.Parent(member.String())
		if from != before && slices.Contains(harmed, from) {
			cause, why := causeDamaged, "it got damaged bytes over %s before"
			if slices.Contains(r.complainedOf(member), from) {
				cause, why = causeUnfed, "%s, a member that relays, gave it up before"
			}
			r.moveElsewhere(member, cause, fmt.Sprintf(why, from), append(harmed, before)...)
		}
	}
}

// harmedBy returns the agents that a node was moved away from because it got damaged bytes, or was given up.
func (k *keeper) harmedBy(name string) (agents []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := placement.ParseID(name)
	if node := k.progress.nodes[id]; node != nil {
		agents = slices.Clone(node.damagedBy)
	}
	return append(agents, k.progress.complaints[id]...)
}

// gotDamaged reports whether a member is to move because the agent that feeds it gave it damaged bytes.
func (r *rearrangement) gotDamaged(member identity.ID) bool {
	from, _ := r.tree.Parent(member.String())
	r.mu.Lock()
	defer r.mu.Unlock()
	node := r.progress.nodes[member]
	return member.Role == identity.Member && r.isAgent(from) && node != nil && len(node.damagedBy) < damagedMost && !r.progress.isTooOld(node) &&
		node.report.GetDamaged() == placement.ParseID(from).Name
}

// isTooOld reports whether a member is of an earlier version: to that, the head of a directory with hashes is damaged.
func (p *progress) isTooOld(node *nodeProgress) bool { return p.hashed && node.report.GetBytes() == 0 }

// gaveRight returns the agents of the tree, except for one, whose members have verified what these agents gave them.
func (r *rearrangement) gaveRight(delivery view.Delivery, but string) (agents []string) {
	return slices.DeleteFunc(r.agents(), func(agent string) bool {
		return agent == but || !slices.ContainsFunc(r.tree.Children(agent), func(child string) bool {
			id := placement.ParseID(child)
			return id.Role == identity.Member && r.finalState(delivery, id.Name) == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE
		})
	})
}

func (r *rearrangement) isAgent(name string) bool {
	node, _ := r.tree.Node(name)
	return node.Kind == tree.Agent
}
