package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/daemon"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/survey"
)

type sessionService struct {
	groupv1.UnimplementedSessionServiceServer
	server *Server
}

func (s *sessionService) Join(ctx context.Context, req *groupv1.JoinRequest) (*groupv1.JoinResponse, error) {
	if err := s.server.mayBe(ctx, req.GetGroup(), req.GetName()); err != nil {
		return nil, err
	}
	return led(ctx, s.server, req, (*group.Registry).Join)
}

func (s *sessionService) Leave(ctx context.Context, req *groupv1.LeaveRequest) (*groupv1.LeaveResponse, error) {
	if err := s.server.mayBe(ctx, req.GetGroup(), req.GetName()); err != nil {
		return nil, err
	}
	return led(ctx, s.server, req, (*group.Registry).Leave)
}

// KeepSession answers heartbeats. The first message says to which session they belong.
func (s *sessionService) KeepSession(stream groupv1.SessionService_KeepSessionServer) error {
	first, err := daemon.Receive(stream, group.HeartbeatInterval)
	if err != nil {
		return endOfStream(err)
	}
	if err := s.server.mayBe(stream.Context(), first.GetGroup(), first.GetName()); err != nil {
		return err
	}
	session := group.Session{Group: first.GetGroup(), Member: first.GetName(), Incarnation: first.GetIncarnation()}
	defer s.part(session)
	if first.GetAttends() {
		return s.keepAttending(stream, session, first)
	}
	for {
		answer, last, err := s.beat(session)
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil || last {
			return err
		}
		// With thousands of sessions, each waits in one goroutine only. That a member is silent is noticed by its expiry, not here.
		if _, err := stream.Recv(); err != nil {
			return endOfStream(err)
		}
	}
}

// part notes that the stream of a session ends.
func (s *sessionService) part(session group.Session) {
	if registry, err := s.server.registry(); err == nil {
		registry.SessionParted(session)
	}
}

// beat notes a heartbeat and answers it; last says that the session has ended.
func (s *sessionService) beat(session group.Session) (answer *groupv1.KeepSessionResponse, last bool, err error) {
	registry, err := s.server.registry()
	if err != nil {
		return nil, false, err
	}
	state, epoch := registry.Heartbeat(session)
	answer = &groupv1.KeepSessionResponse{State: state, Epoch: epoch, ManagerTime: timestamppb.Now()}
	return answer, state != groupv1.MemberState_MEMBER_STATE_ACTIVE, nil
}

// keepAttending answers heartbeats, takes reports, and tells the member what it
// has to do in deliveries.
func (s *sessionService) keepAttending(stream groupv1.SessionService_KeepSessionServer, session group.Session, first *groupv1.KeepSessionRequest) error {
	answer, last, err := s.beat(session)
	if err != nil {
		return err
	}
	if last { // a session that has ended takes no part
		return stream.Send(answer)
	}
	desk, err := s.server.desk()
	if err != nil {
		return err
	}
	attachment, measurer := desk.AttachMember(session.Group, session.Member), survey.Member(session.Group, session.Member)
	defer attachment.Close()
	desk.Survey().Begin(measurer, session.Incarnation)
	return converse(stream, first, attachment, conversation[*groupv1.KeepSessionRequest, *groupv1.KeepSessionResponse, *groupv1.Assignments]{
		answer: func(req *groupv1.KeepSessionRequest) (*groupv1.KeepSessionResponse, bool, error) {
			answer, last, err := s.beat(session)
			if err == nil && !last {
				desk.ReportMember(session.Group, session.Member, req.GetReports())
				desk.Survey().Take(measurer, req.GetRoundTrips())
				answer.Measuring = desk.Survey().Ask(measurer)
			}
			return answer, last, err
		},
		empty: func() *groupv1.KeepSessionResponse {
			state, epoch := s.server.View.SessionState(session.Group, session.Member, session.Incarnation)
			return &groupv1.KeepSessionResponse{State: state, Epoch: epoch, ManagerTime: timestamppb.Now()}
		},
		add: func(to *groupv1.KeepSessionResponse, assignments *groupv1.Assignments) { to.Assignments = assignments },
	})
}

func (s *sessionService) ListMembers(ctx context.Context, req *groupv1.ListMembersRequest) (*groupv1.ListMembersResponse, error) {
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if err := s.server.View.Sync(ctx); err != nil { // first: what the caller may see can have changed, too
		return nil, err
	}
	if err := s.server.mayUse(ctx, req.GetGroup()); err != nil {
		return nil, err
	}
	if _, _, found := s.server.View.Group(req.GetGroup()); !found {
		return nil, fmt.Errorf("group %q %w", req.GetGroup(), ledger.ErrNotFound)
	}
	members, more := s.server.View.Members(req.GetGroup(), after, limit)
	return &groupv1.ListMembersResponse{Members: members, NextPageToken: nextPage(members, more)}, nil
}

func (s *sessionService) WatchMembers(req *groupv1.WatchMembersRequest, stream groupv1.SessionService_WatchMembersServer) error {
	if err := s.server.View.SyncSoon(stream.Context()); err != nil {
		return err
	}
	if err := s.server.mayUse(stream.Context(), req.GetGroup()); err != nil {
		return err
	}
	if _, _, found := s.server.View.Group(req.GetGroup()); !found {
		return fmt.Errorf("group %q %w", req.GetGroup(), ledger.ErrNotFound)
	}
	send := func(message *groupv1.WatchMembersResponse) error {
		if err := s.server.mayUse(stream.Context(), req.GetGroup()); err != nil { // it was let into other groups since
			return err
		}
		return stream.Send(message)
	}
	return s.server.View.WatchMembers(stream.Context(), req.GetGroup(), store.Revision(req.GetResumeRevision()), send)
}
