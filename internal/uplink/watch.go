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

// WatchMembers calls each with the members as they are, and then with every change, until ctx is
// done or the watch cannot go on, for instance because the group is gone. After a broken connection
// it resumes; if changes were missed, a new snapshot follows, which replaces everything known
// before.
func (u *Uplink) WatchMembers(ctx context.Context, group string, each func(MemberEvent) error) error {
	return watch(ctx, u, "watch members",
		func(ctx context.Context, resume uint64) (receiver[*groupv1.WatchMembersResponse], error) {
			return groupv1.NewSessionServiceClient(u).WatchMembers(ctx, &groupv1.WatchMembersRequest{Group: group, ResumeRevision: resume})
		},
		func(snapshot []*groupv1.Member) error { return each(MemberEvent{Snapshot: snapshot}) },
		func(change *groupv1.MemberChange) error { return each(MemberEvent{Change: change}) })
}

// GroupEvent is one step of a watch: a whole snapshot, or a change.
type GroupEvent struct {
	// Snapshot holds all groups, where Change is nil.
	Snapshot []*groupv1.Group
	Change   *groupv1.GroupChange
}

// WatchGroups is WatchMembers for groups: for one, or for all if group is empty.
func (u *Uplink) WatchGroups(ctx context.Context, group string, each func(GroupEvent) error) error {
	return watch(ctx, u, "watch groups",
		func(ctx context.Context, resume uint64) (receiver[*groupv1.WatchGroupsResponse], error) {
			return groupv1.NewGroupServiceClient(u).WatchGroups(ctx, &groupv1.WatchGroupsRequest{Name: group, ResumeRevision: resume})
		},
		func(snapshot []*groupv1.Group) error { return each(GroupEvent{Snapshot: snapshot}) },
		func(change *groupv1.GroupChange) error { return each(GroupEvent{Change: change}) })
}

// RevocationEvent is one step of a watch: a whole snapshot, or a change.
type RevocationEvent struct {
	// Snapshot holds all revocations, where Change is nil.
	Snapshot []*groupv1.Revocation
	Change   *groupv1.Revocation
}

// WatchRevocations is WatchMembers for revoked identities. heard is called whenever a
// manager says anything, be it a heartbeat.
func (u *Uplink) WatchRevocations(ctx context.Context, each func(RevocationEvent) error, heard func()) error {
	return watch(ctx, u, "watch revocations",
		func(ctx context.Context, resume uint64) (receiver[*groupv1.WatchRevocationsResponse], error) {
			stream, err := groupv1.NewIdentityServiceClient(u).WatchRevocations(ctx, &groupv1.WatchRevocationsRequest{ResumeRevision: resume})
			return noting[*groupv1.WatchRevocationsResponse]{stream, heard}, err
		},
		func(snapshot []*groupv1.Revocation) error { return each(RevocationEvent{Snapshot: snapshot}) },
		func(change *groupv1.Revocation) error { return each(RevocationEvent{Change: change}) })
}

// GrantEvent is one step of a watch: a whole snapshot, or a change.
type GrantEvent struct {
	// Snapshot holds all grants, where Change is nil.
	Snapshot []*groupv1.Grant
	Change   *groupv1.Grant
}

// WatchGrants is WatchMembers for the groups that members may join.
func (u *Uplink) WatchGrants(ctx context.Context, each func(GrantEvent) error) error {
	return watch(ctx, u, "watch grants",
		func(ctx context.Context, resume uint64) (receiver[*groupv1.WatchGrantsResponse], error) {
			return groupv1.NewIdentityServiceClient(u).WatchGrants(ctx, &groupv1.WatchGrantsRequest{ResumeRevision: resume})
		},
		func(snapshot []*groupv1.Grant) error { return each(GrantEvent{Snapshot: snapshot}) },
		func(change *groupv1.Grant) error { return each(GrantEvent{Change: change}) })
}

// noting is a receiver that notes that something was received.
type noting[M any] struct {
	from  receiver[M]
	heard func()
}

func (n noting[M]) Recv() (M, error) {
	message, err := n.from.Recv()
	if err == nil {
		n.heard()
	}
	return message, err
}

// receiver is the stream of a watch.
type receiver[M any] interface{ Recv() (M, error) }

// step is a message of a watch: parts of a snapshot of records R, or changes C.
type step[R, C any] interface {
	GetSnapshot() []R
	GetSnapshotContinues() bool
	GetChanges() []C
	GetRevision() uint64
}

// watch takes a watch's messages until ctx is done, over broken connections. It resumes where it
// can, and begins with a new snapshot where it must.
func watch[M step[R, C], R, C any](
	ctx context.Context, u *Uplink, what string, open func(context.Context, uint64) (receiver[M], error),
	snapshot func([]R) error, change func(C) error,
) error {
	var resume uint64
	isHeartbeat := func(message M) bool { return len(message.GetSnapshot()) == 0 && len(message.GetChanges()) == 0 }
	return u.attend(ctx, what, func(ctx context.Context) error {
		stream, end, err := heed(ctx, func(ctx context.Context) (receiver[M], error) { return open(ctx, resume) }, isHeartbeat)
		defer end()
		if err != nil {
			return err
		}
		if resume == 0 {
			if resume, err = takeSnapshot[M](stream, snapshot); err != nil {
				return relist(err, &resume)
			}
		}
		for {
			message, err := stream.Recv()
			if err != nil {
				return relist(err, &resume)
			}
			for _, c := range message.GetChanges() {
				if err := change(c); err != nil {
					return &callerError{err}
				}
			}
			resume = message.GetRevision()
		}
	})
}

// takeSnapshot joins the parts of a snapshot, and returns its revision.
func takeSnapshot[M step[R, C], R, C any](stream receiver[M], take func([]R) error) (revision uint64, err error) {
	var whole []R
	for {
		message, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		whole = append(whole, message.GetSnapshot()...)
		if message.GetSnapshotContinues() {
			continue
		}
		if err := take(whole); err != nil {
			return 0, &callerError{err}
		}
		return message.GetRevision(), nil
	}
}

// callerError ends a watch because the caller's function failed.
type callerError struct{ cause error }

func (e *callerError) Error() string { return e.cause.Error() }
func (e *callerError) Unwrap() error { return e.cause }

// relist prepares for a new snapshot if the manager asks for one.
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
