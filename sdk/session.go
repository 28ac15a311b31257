package sdk

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Join describes a member that joins a group.
type Join struct {
	Group string
	// Name is the member's name, a DNS label. With a member's identity it is that member's name or, for one of several sessions at a
	// time, NAME.PART, where PART is another label. Empty is the client's SessionName.
	Name string
	// Node is the machine that the member runs on.
	Node string
	// Addresses are where others reach the member, as host:port.
	Addresses []string
	Labels    map[string]string
	// Roles are what the member will do; none stands for all that the group allows.
	Roles []Role
}

// Session is a member's attachment to a group. It is kept alive until Leave or Close, across broken connections and restarts of the
// managers.
type Session struct {
	client     *Client
	member     Member
	attendance *attendance
	joined     time.Time
	keeping    context.Context // done when the session is not kept any more
	stop       context.CancelFunc
	done       chan struct{}
	once       sync.Once
	err        error

	leaving sync.Mutex
	left    bool // guarded by leaving
}

// Join begins a session. If the same member has another session elsewhere, that is fenced: it ends.
// If ctx is canceled while a manager is asked, Join takes up to 2 s more, to leave what may have begun. If its time is over, it leaves
// nothing: whoever tries again takes the place of what began, and goes on with what is delivered.
func (c *Client) Join(ctx context.Context, join Join) (*Session, error) {
	roles, err := values[groupv1.Role](join.Roles)
	if err != nil {
		return nil, err
	}
	if join.Name == "" {
		if join.Name, err = c.SessionName(); err != nil {
			return nil, wrap(err)
		}
	}
	request := &groupv1.JoinRequest{
		Group: join.Group, Name: join.Name, Node: join.Node, Addresses: join.Addresses,
		Labels: join.Labels, Roles: roles, RequestId: requestID(),
	}
	var asked peer.Peer
	answer, err := c.sessions.Join(ctx, request, grpc.Peer(&asked))
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) && asked.Addr != nil { // else no manager was asked
			c.undoJoin(ctx, request)
		}
		return nil, wrap(err)
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Session{
		client: c, member: newMember(answer.GetMember()), attendance: newAttendance(c), joined: time.Now(),
		keeping: keeping, stop: stop, done: make(chan struct{}),
	}
	go s.refuseUnclaimed(keeping)
	var measuring sync.WaitGroup
	measuring.Go(func() { _ = s.attendance.prober.Run(keeping) }) // it ends with the session
	go func() {
		defer close(s.done)
		defer measuring.Wait()
		defer stop()
		s.err = c.ended(c.uplink.Keep(keeping, answer.GetMember(), answer.GetHeartbeatInterval().AsDuration(), s.attendance.uplink()))
	}()
	return s, nil
}

// undoTimeout is how long what its caller gave up may take to be undone.
const undoTimeout = 2 * time.Second

// undoJoin leaves the session of a join whose answer nobody waited for: a manager may have begun it, or be about to. The same request once
// more tells which session that is. If this fails, the session expires.
func (c *Client) undoJoin(ctx context.Context, request *groupv1.JoinRequest) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	answer, err := c.sessions.Join(ctx, request)
	if err != nil {
		return
	}
	_, _ = c.sessions.Leave(ctx, &groupv1.LeaveRequest{
		Group: request.GetGroup(), Name: request.GetName(), Incarnation: answer.GetMember().GetIncarnation(), RequestId: requestID(),
	})
}

// SessionEnded says that a session has ended without being left.
type SessionEnded struct {
	// State is expired, fenced or expelled.
	State MemberState
	text  string
}

func (e *SessionEnded) Error() string { return e.text }

func (c *Client) ended(err error) error {
	var end *uplink.Ended
	switch {
	case errors.As(err, &end):
		return &SessionEnded{State: name[MemberState](end.State), text: end.Error()}
	case err != nil && c.uplink.Closed():
		return errSessionClosed
	}
	return wrap(err)
}

// Member returns the member as it joined.
func (s *Session) Member() Member { return s.member }

// Done is closed when the session has ended; Err then says how.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns how the session ended: a *SessionEnded, or nil if it was left or goes on; an *Error if its client was closed, or if the managers
// refused for good.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// whyDone says why a context that ends with the session is done.
func (s *Session) whyDone(ctx context.Context) error {
	if s.keeping.Err() != nil {
		<-s.done // how it ended becomes known a little later
	}
	if err := s.Err(); err != nil {
		return err
	}
	if s.keeping.Err() != nil {
		return errSessionClosed
	}
	return ctx.Err()
}

var errSessionClosed = &Error{Code: Conflict, Reason: "CLOSED", Message: "the session was left or closed"}

// Members returns the members of the session's group.
func (s *Session) Members(ctx context.Context) ([]Member, error) {
	return s.client.Members(ctx, s.member.Group)
}

// Events yields the members of the session's group as they are, and then every
// change: see Client.WatchMembers.
func (s *Session) Events(ctx context.Context) iter.Seq2[MemberEvent, error] {
	return s.client.WatchMembers(ctx, s.member.Group)
}

// Leave ends the session, which the other members see at once. Called again it does nothing.
func (s *Session) Leave(ctx context.Context) error {
	s.Close()
	if s.err != nil {
		return s.err
	}
	s.leaving.Lock()
	defer s.leaving.Unlock()
	if s.left {
		return nil
	}
	_, err := s.client.sessions.Leave(ctx, &groupv1.LeaveRequest{
		Group: s.member.Group, Name: s.member.Name, Incarnation: s.member.Incarnation, RequestId: requestID(),
	})
	s.left = err == nil
	return wrap(err)
}

// Close stops keeping the session alive without leaving: it expires, unless it is joined again.
func (s *Session) Close() {
	s.once.Do(s.stop)
	<-s.done
}

// ChangeType says what a change did.
type ChangeType string

// The changes.
const (
	Added   ChangeType = "added"
	Updated ChangeType = "updated"
	Removed ChangeType = "removed"
)

// MemberEvent is one step of a watch: all members, or one change.
type MemberEvent struct {
	// Snapshot holds all members, in the order of their names, if Change is empty. It comes first, and again after changes were missed: it
	// replaces all that was known.
	Snapshot []Member
	Change   ChangeType
	// Member is the member after the change; for Removed, its state says how its session ended.
	Member Member
}

// GroupEvent is one step of a watch: all groups, or one change.
type GroupEvent struct {
	Snapshot []Group
	Change   ChangeType
	Group    Group
}

// errEnough ends a watch whose iteration was broken off.
var errEnough = errors.New("enough")

// WatchMembers yields the members of a group as they are, and then every change,
// until ctx is done, the group is deleted, or the iteration is broken off.
func (c *Client) WatchMembers(ctx context.Context, group string) iter.Seq2[MemberEvent, error] {
	return func(yield func(MemberEvent, error) bool) {
		err := c.uplink.WatchMembers(ctx, group, func(event uplink.MemberEvent) error {
			converted := MemberEvent{Snapshot: convert(event.Snapshot, newMember)}
			if event.Change != nil {
				converted = MemberEvent{Change: name[ChangeType](event.Change.GetType()), Member: newMember(event.Change.GetMember())}
			}
			return proceed(yield(converted, nil))
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(MemberEvent{}, wrap(err))
		}
	}
}

// WatchGroups is WatchMembers for groups: for one, or for all if group is empty.
func (c *Client) WatchGroups(ctx context.Context, group string) iter.Seq2[GroupEvent, error] {
	return func(yield func(GroupEvent, error) bool) {
		err := c.uplink.WatchGroups(ctx, group, func(event uplink.GroupEvent) error {
			converted := GroupEvent{Snapshot: convert(event.Snapshot, newGroup)}
			if event.Change != nil {
				converted = GroupEvent{Change: name[ChangeType](event.Change.GetType()), Group: newGroup(event.Change.GetGroup())}
			}
			return proceed(yield(converted, nil))
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(GroupEvent{}, wrap(err))
		}
	}
}

func proceed(goOn bool) error {
	if goOn {
		return nil
	}
	return errEnough
}
