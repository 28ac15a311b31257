package delivery

import (
	"context"
	"errors"
	"slices"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// arrange makes the tree fit who is there, and writes it if it changes. Where those who come have no room, all else changes without them.
func (k *keeper) arrange(ctx context.Context, delivery view.Delivery, now time.Time) (view.Delivery, time.Time, error) {
	again, due, err := k.rearrange(ctx, delivery, now)
	if errors.Is(err, store.ErrTooLarge) && k.tree != nil && k.crowded == 0 {
		k.warn(err, now)
		k.crowded = k.tree.Len()
		again, due, err = k.rearrange(ctx, delivery, now)
	}
	return again, due, err
}

// leaveOutNew has nobody come into a tree that had no room for another, until it has become smaller.
func (r *rearrangement) leaveOutNew() {
	if r.keeper.tree == nil || r.keeper.tree.Len() < r.crowded {
		r.crowded = 0
	}
	if r.crowded > 0 {
		r.network.Receivers = slices.DeleteFunc(r.network.Receivers, func(member *groupv1.Member) bool {
			_, has := r.tree.Node(placement.MemberID(member.GetName()).String())
			return !has
		})
	}
}
