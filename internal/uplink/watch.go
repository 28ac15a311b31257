package uplink

import (
	"context"
	"errors"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// MemberEvent is one step of a watch: a whole snapshot, or a change.
type MemberEvent struct {
	// Snapshot holds all members, where Change is nil.
	Snapshot []*groupv1.Member
	Change   *groupv1.MemberChange
}

// WatchMembers calls each with the members as they are, and then with every
// change, until ctx is done or the watch cannot go on, as when the group is gone.
// After a broken connection it resumes; when changes were missed, a new snapshot
// follows, which replaces all that was known.
func (u *Uplink) WatchMembers(ctx context.Context, group string, each func(MemberEvent) error) error {
	var resume uint64
	return u.attend(ctx, "watch members", func(ctx context.Context) error {
		stream, err := groupv1.NewSessionServiceClient(u).WatchMembers(ctx, &groupv1.WatchMembersRequest{Group: group, ResumeRevision: resume})
		if err != nil {
			return err
		}
		err = receive(stream, resume == 0, func(message *groupv1.WatchMembersResponse, snapshot []*groupv1.Member, whole bool) error {
			if whole {
				if err := each(MemberEvent{Snapshot: snapshot}); err != nil {
					return &callerError{err}
				}
			}
			for _, change := range message.GetChanges() {
				if err := each(MemberEvent{Change: change}); err != nil {
					return &callerError{err}
				}
			}
			resume = message.GetRevision()
			return nil
		})
		return relist(err, &resume)
	})
}

// GroupEvent is one step of a watch: a whole snapshot, or a change.
type GroupEvent struct {
	// Snapshot holds all groups, where Change is nil.
	Snapshot []*groupv1.Group
	Change   *groupv1.GroupChange
}

// WatchGroups is WatchMembers for groups: for one, or for all if group is empty.
func (u *Uplink) WatchGroups(ctx context.Context, group string, each func(GroupEvent) error) error {
	var resume uint64
	return u.attend(ctx, "watch groups", func(ctx context.Context) error {
		stream, err := groupv1.NewGroupServiceClient(u).WatchGroups(ctx, &groupv1.WatchGroupsRequest{Name: group, ResumeRevision: resume})
		if err != nil {
			return err
		}
		err = receive(stream, resume == 0, func(message *groupv1.WatchGroupsResponse, snapshot []*groupv1.Group, whole bool) error {
			if whole {
				if err := each(GroupEvent{Snapshot: snapshot}); err != nil {
					return &callerError{err}
				}
			}
			for _, change := range message.GetChanges() {
				if err := each(GroupEvent{Change: change}); err != nil {
					return &callerError{err}
				}
			}
			resume = message.GetRevision()
			return nil
		})
		return relist(err, &resume)
	})
}

// receive takes a watch's messages until it ends. The parts of the snapshot are
// joined: whole is true with the message that completes it.
func receive[M interface {
	GetSnapshot() []R
	GetSnapshotContinues() bool
}, R any](stream interface{ Recv() (M, error) }, expectSnapshot bool, take func(message M, snapshot []R, whole bool) error,
) error {
	var snapshot []R
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		snapshot = append(snapshot, message.GetSnapshot()...)
		if expectSnapshot && message.GetSnapshotContinues() {
			continue
		}
		if err := take(message, snapshot, expectSnapshot); err != nil {
			return err
		}
		snapshot, expectSnapshot = nil, false
	}
}

// callerError ends a watch because the caller wants it to.
type callerError struct{ cause error }

func (e *callerError) Error() string { return e.cause.Error() }
func (e *callerError) Unwrap() error { return e.cause }

// relist prepares for a new snapshot where the manager asks for one.
func relist(err error, resume *uint64) error {
	var fromCaller *callerError
	switch {
	case errors.As(err, &fromCaller):
		return fromCaller
	case Reason(err) == "RELIST":
		*resume = 0
		return errMissed
	}
	return err
}
