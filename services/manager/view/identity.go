package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
)

func (v *View) putIdentity(id identity.ID, record Identity) {
	before := v.identities[id]
	if record.Revoked != before.Revoked {
		v.revoked.add(record.Changed, revocation(id, record))
	}
	if !slices.Equal(record.Groups, before.Groups) {
		v.granted.add(record.Changed, grant(id, record))
	}
	v.identities[id] = record
}

func revocation(id identity.ID, record Identity) *groupv1.Revocation {
	return &groupv1.Revocation{Role: string(id.Role), Name: id.Name, Stamp: uint64(record.Revoked)}
}

// grant tells of members alone: only they have groups.
func grant(id identity.ID, record Identity) *groupv1.Grant {
	return &groupv1.Grant{Member: id.Name, Groups: record.Groups}
}

// WatchRevocations sends the identities that are revoked, or the revocations after a revision, and then every revocation until ctx is done.
func (v *View) WatchRevocations(ctx context.Context, after store.Revision, send func(*groupv1.WatchRevocationsResponse) error) error {
	isRevoked := func(record Identity) bool { return record.Revoked != 0 }
	return watchIdentities(ctx, v, after, &v.revoked, isRevoked, revocation, func(s step[*groupv1.Revocation]) error {
		return send(&groupv1.WatchRevocationsResponse{Snapshot: s.snapshot, SnapshotContinues: s.continues, Changes: s.changes, Revision: uint64(s.at)})
	})
}

// WatchGrants sends which groups members may join, or what of that changed after a revision, and then every change until ctx is done.
func (v *View) WatchGrants(ctx context.Context, after store.Revision, send func(*groupv1.WatchGrantsResponse) error) error {
	isGranted := func(record Identity) bool { return len(record.Groups) > 0 }
	return watchIdentities(ctx, v, after, &v.granted, isGranted, grant, func(s step[*groupv1.Grant]) error {
		return send(&groupv1.WatchGrantsResponse{Snapshot: s.snapshot, SnapshotContinues: s.continues, Changes: s.changes, Revision: uint64(s.at)})
	})
}

// step is a message of a watch of identities.
type step[R any] struct {
	snapshot  []R
	continues bool // with more of the snapshot
	changes   []R
	at        store.Revision
}

// watchIdentities sends what is said of those identities that count, or the changes of a log after a revision, and then every change until ctx
// is done.
func watchIdentities[R proto.Message](
	ctx context.Context, v *View, after store.Revision, log *changeLog[R],
	counts func(Identity) bool, say func(identity.ID, Identity) R, send func(step[R]) error,
) error {
	if after > v.Revision() { // from a state that was since replaced by an older one
		return ErrRelist
	}
	if after == 0 {
		snapshot, at := identitiesOf(v, counts, say)
		after = at
		err := parts(snapshot, func(part []R, more bool) error { return send(step[R]{snapshot: part, continues: more, at: at}) })
		if err != nil {
			return err
		}
	}
	return follow(ctx, v, after,
		func(after store.Revision) ([]R, store.Revision, <-chan struct{}, error) {
			v.mu.RLock()
			defer v.mu.RUnlock()
			changes, last, complete := log.after(after, watchPart)
			if !complete {
				return nil, 0, nil, ErrRelist
			}
			return changes, last, v.advanced, nil
		},
		func(changes []R, at store.Revision) error { return send(step[R]{changes: changes, at: at}) })
}

// identitiesOf returns what is said of the identities that count, in the order of roles and names.
func identitiesOf[R any](v *View, counts func(Identity) bool, say func(identity.ID, Identity) R) (all []R, at store.Revision) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var ids []identity.ID
	for id, record := range v.identities {
		if counts(record) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b identity.ID) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name)) })
	for _, id := range ids {
		all = append(all, say(id, v.identities[id]))
	}
	return all, v.revision
}

// AppendAway adds somebody to those that are away, if it was not heard for longer than patience, and its identity is good. Where it was
// heard last when this leader began, that is because nobody knows when it was.
func (v *View) AppendAway(away []*groupv1.Away, id identity.ID, incarnation uint64, heard, began time.Time, patience time.Duration) []*groupv1.Away {
	if time.Since(heard) < patience || v.IsPutOut(id, incarnation) {
		return away
	}
	one := &groupv1.Away{Id: id.String()}
	if heard != began {
		one.SeenTime = timestamppb.New(heard)
	}
	return append(away, one)
}
