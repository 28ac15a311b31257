package delivery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// room is what is known of a tree that has no room for all members that come: it may not grow larger than what can be stored at once.
type room struct {
	few   int // how many members are tried next, at most
	nodes int // how many nodes the tree had when there was no room for one more; 0 where there may be
	least int // the bytes of the smallest member that had no room then
}

// arrange makes the tree fit the nodes that are there, and writes it if it changes. Of the members that come, it takes in as many as have room,
// the smallest first. All else changes without the others.
func (k *keeper) arrange(ctx context.Context, delivery view.Delivery, now time.Time) (view.Delivery, time.Time, error) {
	receivers := k.receivers(delivery)
	if k.tree == nil {
		k.room = room{}
		return k.rearrange(ctx, delivery, receivers, now)
	}
	inside, coming := k.whoComes(receivers)
	few, refused := k.room.admits(coming, k.tree.Len()), false
	if k.room == (room{}) {
		again, due, err := k.rearrange(ctx, delivery, receivers, now)
		if !errors.Is(err, store.ErrTooLarge) {
			return again, due, err
		}
		k.desk.metrics.treesTooLarge.Inc()
		few, refused = len(coming)/2, true
	}
	for {
		again, due, err := k.rearrange(ctx, delivery, slices.Concat(inside, coming[:few]), now)
		isTooLarge := errors.Is(err, store.ErrTooLarge)
		if isTooLarge && few > 0 {
			k.desk.metrics.treesTooLarge.Inc()
			few, refused = few/2, true
			continue
		}
		if (err == nil || isTooLarge) && k.noteRoom(coming, few, refused, now) {
			due = now
		}
		if isTooLarge && k.holdUnwritten() {
			due = now
		}
		return again, due, err
	}
}

// whoComes returns the receivers that are in the tree, and those that are not, the smallest first.
func (k *keeper) whoComes(receivers []*groupv1.Member) (inside, coming []*groupv1.Member) {
	for _, member := range receivers {
		if _, has := k.tree.Node(placement.MemberID(member.GetName()).String()); has {
			inside = append(inside, member)
		} else {
			coming = append(coming, member)
		}
	}
	slices.SortStableFunc(coming, func(a, b *groupv1.Member) int { return cmp.Compare(proto.Size(a), proto.Size(b)) })
	return inside, coming
}

// admits returns how many of the members that come are tried. Where not one had room, these are as many as nodes have gone since, or those that
// are smaller than the smallest one then.
func (has room) admits(coming []*groupv1.Member, nodes int) (few int) {
	switch {
	case has.nodes == 0:
		few = has.few
	case nodes < has.nodes:
		few = has.nodes - nodes
	default:
		few = slices.IndexFunc(coming, func(member *groupv1.Member) bool { return proto.Size(member) >= has.least })
	}
	if few < 0 {
		return len(coming)
	}
	return min(few, len(coming))
}

// noteRoom remembers how many of the members that come were tried last, and logs how many others wait. It reports whether more of them may have
// room at once.
func (k *keeper) noteRoom(coming []*groupv1.Member, few int, refused bool, now time.Time) (more bool) {
	if few == len(coming) {
		k.room = room{}
		return false
	}
	if now.Sub(k.crowdedAt) >= warnEvery {
		k.crowdedAt = now
		k.desk.log.Warn("members wait for room in a delivery's tree, which is as large as the store takes at once",
			"delivery", k.id, "members", len(coming)-few, "nodes", k.tree.Len())
	}
	switch {
	case few > 0:
		k.room = room{few: 2 * few}
		_, came := k.tree.Node(placement.MemberID(coming[0].GetName()).String())
		return came
	case !refused && k.tree.Len() < k.room.nodes: // some have just gone
		return true
	}
	k.room = room{nodes: k.tree.Len(), least: proto.Size(coming[0])}
	return false
}
