package view

import (
	"cmp"
	"context"
	"slices"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
)

func (v *View) putIdentity(id identity.ID, record Identity) {
	if record.Revoked != v.identities[id].Revoked {
		v.revoked.add(record.Changed, revocation(id, record))
	}
	v.identities[id] = record
}

func revocation(id identity.ID, record Identity) *groupv1.Revocation {
	return &groupv1.Revocation{Role: string(id.Role), Name: id.Name, Stamp: uint64(record.Revoked)}
}

// WatchRevocations sends who was revoked, or the revocations after a revision, and then
// every revocation until ctx is done.
func (v *View) WatchRevocations(ctx context.Context, after store.Revision, send func(*groupv1.WatchRevocationsResponse) error) error {
	if after > v.Revision() { // from a state that was since replaced by an older one
		return ErrRelist
	}
	if after == 0 {
		snapshot, at := v.revocations()
		after = at
		err := parts(snapshot, func(part []*groupv1.Revocation, more bool) error {
			return send(&groupv1.WatchRevocationsResponse{Snapshot: part, SnapshotContinues: more, Revision: uint64(at)})
		})
		if err != nil {
			return err
		}
	}
	return follow(ctx, after,
		func(after store.Revision) ([]*groupv1.Revocation, store.Revision, <-chan struct{}, error) {
			v.mu.RLock()
			defer v.mu.RUnlock()
			changes, last, complete := v.revoked.after(after, watchPart)
			if !complete {
				return nil, 0, nil, ErrRelist
			}
			return changes, last, v.advanced, nil
		},
		func(changes []*groupv1.Revocation, at store.Revision) error {
			return send(&groupv1.WatchRevocationsResponse{Changes: changes, Revision: uint64(at)})
		})
}

// revocations returns who was revoked, in the order of roles and names.
func (v *View) revocations() (all []*groupv1.Revocation, at store.Revision) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for id, record := range v.identities {
		if record.Revoked != 0 {
			all = append(all, revocation(id, record))
		}
	}
	slices.SortFunc(all, func(a, b *groupv1.Revocation) int {
		return cmp.Or(cmp.Compare(a.GetRole(), b.GetRole()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all, v.revision
}
