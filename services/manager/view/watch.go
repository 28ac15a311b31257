package view

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Errors that end a watch.
var (
	// ErrRelist says that the changes since the revision are no longer kept: only a new snapshot helps.
	ErrRelist = errors.New("the changes since then are no longer kept: watch again from a snapshot")
	// ErrGone says that the watched group is gone.
	ErrGone = errors.New("the group was deleted")
)

const (
	// watchPart is how many members or changes are sent in one message.
	watchPart = 1000
	// watchHeartbeat is how long a watch is silent at most.
	watchHeartbeat = 5 * time.Second
	// watchPace is how long changes are collected before the next message.
	watchPace = 20 * time.Millisecond
)

// WatchGroups sends the groups as they are, or the changes after a revision, and
// then every change until ctx is done. name limits it to one group.
func (v *View) WatchGroups(ctx context.Context, name string, after store.Revision, send func(*groupv1.WatchGroupsResponse) error) error {
	if after > v.Revision() { // from a state that was since replaced by an older one
		return ErrRelist
	}
	if after == 0 {
		snapshot, at := v.groupSnapshot(name)
		after = at
		err := parts(snapshot, func(part []*groupv1.Group, more bool) error {
			return send(&groupv1.WatchGroupsResponse{Snapshot: part, SnapshotContinues: more, Revision: uint64(at)})
		})
		if err != nil {
			return err
		}
	}
	return follow(ctx, v, after,
		func(after store.Revision) ([]*groupv1.GroupChange, store.Revision, <-chan struct{}, error) {
			v.mu.RLock()
			defer v.mu.RUnlock()
			changes, last, complete := v.groupLog.after(after, watchPart)
			if !complete {
				return nil, 0, nil, ErrRelist
			}
			return ofGroup(changes, name), last, v.advanced, nil
		},
		func(changes []*groupv1.GroupChange, at store.Revision) error {
			return send(&groupv1.WatchGroupsResponse{Changes: changes, Revision: uint64(at)})
		})
}

func (v *View) groupSnapshot(name string) ([]*groupv1.Group, store.Revision) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var snapshot []*groupv1.Group
	for _, g := range v.groups {
		if name == "" || g.record.GetName() == name {
			snapshot = append(snapshot, g.message())
		}
	}
	sortByName(snapshot)
	return snapshot, v.revision
}

func ofGroup(changes []*groupv1.GroupChange, name string) []*groupv1.GroupChange {
	if name == "" {
		return changes
	}
	var kept []*groupv1.GroupChange
	for _, change := range changes {
		if change.GetGroup().GetName() == name {
			kept = append(kept, change)
		}
	}
	return kept
}

// WatchMembers sends a group's members as they are, or the changes after a
// revision, and then every change until ctx is done or the group is gone.
func (v *View) WatchMembers(ctx context.Context, name string, after store.Revision, send func(*groupv1.WatchMembersResponse) error) error {
	v.mu.RLock()
	g, known := v.groups[name]
	if !known {
		v.mu.RUnlock()
		return ErrGone
	}
	at := v.revision
	if after > at { // from a state that was since replaced by an older one
		v.mu.RUnlock()
		return ErrRelist
	}
	var snapshot []*groupv1.Member
	if after == 0 {
		for _, record := range g.members {
			snapshot = append(snapshot, record.Member)
		}
	}
	v.mu.RUnlock()
	if after == 0 {
		after = at
		sortByName(snapshot)
		err := parts(snapshot, func(part []*groupv1.Member, more bool) error {
			return send(&groupv1.WatchMembersResponse{Snapshot: part, SnapshotContinues: more, Revision: uint64(at)})
		})
		if err != nil {
			return err
		}
	}
	return follow(ctx, v, after,
		func(after store.Revision) ([]*groupv1.MemberChange, store.Revision, <-chan struct{}, error) {
			v.mu.RLock()
			defer v.mu.RUnlock()
			changes, last, complete := g.log.after(after, watchPart)
			switch {
			case !complete:
				return nil, 0, nil, ErrRelist
			case len(changes) > 0 || v.groups[name] == g:
				return changes, last, g.changed, nil
			case v.groups[name] != nil:
				return nil, 0, nil, ErrRelist // the view was read anew
			}
			return nil, 0, nil, ErrGone
		},
		func(changes []*groupv1.MemberChange, at store.Revision) error {
			return send(&groupv1.WatchMembersResponse{Changes: changes, Revision: uint64(at)})
		})
}

// follow sends what next returns until ctx is done. A slow receiver holds up
// nobody: changes wait in the log, and when they are gone from there, next says so.
// A heartbeat says that nothing else has changed, so there is none where that is not known.
func follow[C proto.Message](
	ctx context.Context, v *View, after store.Revision,
	next func(store.Revision) ([]C, store.Revision, <-chan struct{}, error),
	send func([]C, store.Revision) error,
) error {
	heartbeat := time.NewTicker(watchHeartbeat)
	defer heartbeat.Stop()
	beat := func() error {
		if err := v.checkFresh(); err != nil {
			return err
		}
		return send(nil, after)
	}
	for {
		changes, last, more, err := next(after)
		if err != nil {
			return err
		}
		wait := more
		if last != after {
			if err := sendAll(changes, after, last, send); err != nil {
				return err
			}
			after = last
			if len(changes) > 0 {
				heartbeat.Reset(watchHeartbeat)
			}
			wait = nil // collect a little before looking again
		}
		if err := awaitChange(ctx, wait, heartbeat.C, beat); err != nil {
			return err
		}
	}
}

// sendAll sends changes in messages of bounded size. Only with the last one has
// the receiver seen all of the revision.
func sendAll[C proto.Message](changes []C, before, revision store.Revision, send func([]C, store.Revision) error) error {
	for len(changes) > 0 {
		n := fit(changes, watchPart)
		at := before
		if n == len(changes) {
			at = revision
		}
		if err := send(changes[:n], at); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// awaitChange waits for a change; without a channel to wait on, it collects changes for a little.
func awaitChange(ctx context.Context, change <-chan struct{}, heartbeat <-chan time.Time, beat func() error) error {
	var pace <-chan time.Time
	if change == nil {
		timer := time.NewTimer(watchPace)
		defer timer.Stop()
		pace = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-change:
	case <-pace:
	case <-heartbeat:
		return beat()
	}
	return nil
}

// parts sends a snapshot in messages of bounded size: one at least, even if it is empty.
func parts[R proto.Message](snapshot []R, send func(part []R, more bool) error) error {
	for {
		n := fit(snapshot, watchPart)
		part, rest := snapshot[:n], snapshot[n:]
		if err := send(part, len(rest) > 0); err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		snapshot = rest
	}
}
