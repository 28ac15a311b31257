package group

import "errors"

// Errors that the API's edge tells apart. Each is wrapped with what it is about.
var (
	// ErrStale says that the caller's etag is not the current one.
	ErrStale = errors.New("changed since it was read: read it again")
	// ErrInUse says that a group has members.
	ErrInUse = errors.New("members are joined: delete with force to end their sessions")
	// ErrDelivering says that a group has deliveries that run.
	ErrDelivering = errors.New("deliveries run: delete with force to cancel them")
	// ErrRoleNotAllowed says that the group's policy has no such role.
	ErrRoleNotAllowed = errors.New("the group's policy does not allow the role")
	// ErrGroupFull says that the group has as many members as it may have.
	ErrGroupFull = errors.New("the group has as many members as its policy allows")
	// ErrManySessions says that a member has as many sessions in the group as one may have.
	ErrManySessions = errors.New("the member has as many sessions there as one may have: end some first")
	// ErrNotLetIn says that a member is not let into the group, or not any more.
	ErrNotLetIn = errors.New("not let into the group")
	// ErrToken says that a join token is refused.
	ErrToken = errors.New("join token refused")
	// ErrTokenRole says that a token is for another role than the one that enrolls.
	ErrTokenRole = errors.New("token of another role")
)
