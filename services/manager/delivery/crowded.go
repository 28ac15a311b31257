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

// room is what is known of a tree that has none for all who come, since it is to be no larger than what can be stored at once.
type room struct {
	few   int // how many are tried next, at most
	nodes int // how many the tree had when not one more had room; 0 where some may have
	least int // the bytes of the smallest that had none then
}

// arrange makes the tree fit who is there, and writes it if it changes. Of those who come, as many are taken in as have room, the
// smallest first, and all else changes without the others.
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
		return again, due, err
	}
}

// whoComes returns the receivers that are in the tree, and those that are not, of which the smallest come first.
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

// admits returns how many of those who come are tried. Where not one had room, it is as many as have gone since, or those that are
// smaller than that one.
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

// noteRoom remembers how many of those who come were tried at last, and says of how many others that they wait. It reports whether
// more of them may have room at once.
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
