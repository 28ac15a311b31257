package delivery

import (
	"slices"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// The sender keeps of a stream what members lack that were there at the start. What one that came late lacks is only where agents hold it: to
// move such a member to a better place may cost it the stream.

// losesStream reports whether a node would lose a stream if one tree took the place of another: a member that came late, or an agent that feeds
// such members alone, whose new feeder does not hold what the node lacks, or did not say so.
func (r *rearrangement) losesStream(delivery view.Delivery, before, after *tree.Tree) bool {
	if delivery.GetDelivery().GetSpec().GetKind() != groupv1.DeliveryKind_DELIVERY_KIND_STREAM {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(after.Differing(before), func(name string) bool {
		from, _ := before.Parent(name)
		to, _ := after.Parent(name)
		return to != from && isForLate(delivery, name, before, after) && !r.holds(placement.ParseID(to), placement.ParseID(name))
	})
}

// isForLate reports whether a node has members below it, or is one, in both trees, and all of these came late.
func isForLate(delivery view.Delivery, name string, before, after *tree.Tree) bool {
	stay := slices.DeleteFunc(membersAt(before, name), func(member string) bool { return !slices.Contains(after.Path(member), name) })
	return len(stay) > 0 && !slices.ContainsFunc(stay, func(member string) bool { return isAtStart(delivery, placement.ParseID(member).Name) })
}

// membersAt returns the members of a tree that are at a node or below it.
func membersAt(in *tree.Tree, name string) (members []string) {
	if placement.ParseID(name).Role == identity.Member {
		members = append(members, name)
	}
	for _, child := range in.Children(name) {
		members = append(members, membersAt(in, child)...)
	}
	return members
}

// holds reports whether a node can give another all that it has and the other lacks, by what both lately said. One that is not in the tree may
// have begun anew since it was. The keeper is locked.
func (r *rearrangement) holds(feeder, id identity.ID) bool {
	if _, has := r.tree.Node(feeder.String()); !has {
		return false
	}
	to, from := r.progress.nodes[id], r.progress.nodes[feeder]
	if to == nil || from == nil || r.now.Sub(to.at) > heardPatience || r.now.Sub(from.at) > heardPatience {
		return false
	}
	has, upTo := to.reported().GetBytes(), from.reported().GetBytes()
	return upTo-min(from.reported().GetHeldBytes(), upTo) <= has && has <= upTo
}
