// Package api is a gatherer's gRPC API: it knows who calls and what they may, and turns
// messages into what the roster and the policy understand.
package api

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/daemon"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/gatherer/controller"
	"github.com/groupcast/groupcast/services/gatherer/revocation"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// Server answers a gatherer's API.
type Server struct {
	gatherv1.UnimplementedGatherServiceServer

	Name        string
	TrustDomain string
	// Security checks the certificates of those who call through a gateway.
	Security    identity.TLS
	Roster      *roster.Roster
	Policy      *roster.Agreed
	Controller  *controller.Controller
	Revocations *revocation.List
	// Addresses are where the data port is reached.
	Addresses []string
	Plaintext bool
}

var (
	operators = []identity.Role{identity.Operator}
	clients   = []identity.Role{identity.Operator, identity.Member, identity.Agent}
	everyone  = identity.Roles
)

// rules says who may call what. A method that is not named is refused.
var rules = map[string][]identity.Role{
	gatherv1.GatherService_Attach_FullMethodName:       clients,
	gatherv1.GatherService_OpenUpload_FullMethodName:   clients,
	gatherv1.GatherService_FindFiles_FullMethodName:    clients,
	gatherv1.GatherService_FinishUpload_FullMethodName: clients,
	gatherv1.GatherService_GetPolicy_FullMethodName:    operators,
	gatherv1.GatherService_SetPolicy_FullMethodName:    operators,
	gatherv1.GatherService_ListClients_FullMethodName:  operators,
	gatherv1.GatherService_WatchClients_FullMethodName: operators,

	healthv1.Health_Check_FullMethodName: everyone,
	healthv1.Health_List_FullMethodName:  everyone,
	healthv1.Health_Watch_FullMethodName: everyone,

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      operators,
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: operators,
}

// letIn are the calls of clients that Attach has let in, and calls whose answer tells nothing. They go on while the managers
// are not heard, and so nobody knows who was revoked since. Attach is among them, as the roster knows who is in already.
var letIn = []string{
	gatherv1.GatherService_Attach_FullMethodName,
	gatherv1.GatherService_OpenUpload_FullMethodName, gatherv1.GatherService_FindFiles_FullMethodName, gatherv1.GatherService_FinishUpload_FullMethodName,
	healthv1.Health_Check_FullMethodName, healthv1.Health_List_FullMethodName, healthv1.Health_Watch_FullMethodName,
}

// direct are the calls that may not go through a gateway, which could read what clients are told.
var direct = []string{
	gatherv1.GatherService_Attach_FullMethodName, gatherv1.GatherService_OpenUpload_FullMethodName, gatherv1.GatherService_FindFiles_FullMethodName,
	gatherv1.GatherService_FinishUpload_FullMethodName,
}

type callerKey struct{}

// callerOf returns who makes the call.
func callerOf(ctx context.Context) identity.ID { return peerOf(ctx).ID }

// peerOf returns who makes the call, and by which certificate.
func peerOf(ctx context.Context) identity.Peer {
	caller, _ := ctx.Value(callerKey{}).(identity.Peer)
	return caller
}

// authorize returns the call's context with its caller, or why it is refused.
func (s *Server) authorize(ctx context.Context, method string) (context.Context, error) {
	roles, known := rules[method]
	if !known {
		return nil, fmt.Errorf("%s: %w", daemon.InWords(method), errDenied)
	}
	connection, _ := peer.FromContext(ctx)
	security, _ := connection.AuthInfo.(credentials.TLSInfo)
	caller, proven := identity.PeerOf(security.State, s.TrustDomain)
	if !proven {
		return nil, errNoIdentity
	}
	caller, err := s.behind(ctx, caller, method)
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(roles, caller.ID.Role):
		return nil, daemon.NotFor(method, caller.ID, errDenied, roles)
	}
	admits := s.Revocations.Admit
	if slices.Contains(letIn, method) {
		admits = s.Revocations.Revoked
	}
	if err := admits(caller); err != nil {
		return nil, fmt.Errorf("%s: %w", caller.ID.InWords(), err)
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

// behind returns the caller; for a gateway, whoever is behind it.
func (s *Server) behind(ctx context.Context, caller identity.Peer, method string) (identity.Peer, error) {
	switch {
	case caller.ID.Role != identity.Gateway:
		return caller, nil
	case slices.Contains(direct, method):
		return identity.Peer{}, fmt.Errorf("%s through a gateway: %w (call the gatherer itself)", daemon.InWords(method), errDenied)
	}
	return daemon.BehindGateway(ctx, caller, s.Security)
}

// Guards returns what must see every call.
func (s *Server) Guards() daemon.Guards {
	return daemon.Guards{Admit: s.admit, Unary: []grpc.UnaryServerInterceptor{s.unary}, Stream: []grpc.StreamServerInterceptor{s.stream}}
}

// admit refuses a call that its caller may not make before its request is read.
func (s *Server) admit(ctx context.Context, method string) error {
	_, err := s.authorize(ctx, method)
	return toStatus(err)
}

// unary authorizes a call. It was admitted before; while its request came, that can have changed.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx, err := s.authorize(ctx, info.FullMethod)
	if err != nil {
		return nil, toStatus(err)
	}
	response, err := handler(ctx, req)
	return response, toStatus(err)
}

// stream authorizes a stream.
func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, err := s.authorize(stream.Context(), info.FullMethod)
	if err != nil {
		return toStatus(err)
	}
	return toStatus(handler(srv, &known{stream, ctx}))
}

// known is a stream whose context has its caller.
type known struct {
	grpc.ServerStream
	ctx context.Context
}

func (k *known) Context() context.Context { return k.ctx }

// How often clients say something, and how long they may be silent.
const (
	heartbeat = 2 * time.Second
	patience  = 10 * time.Second
)

// Attach keeps a client's session until it leaves, which it does by ending the stream, is cut off, falls silent or is fenced.
func (s *Server) Attach(stream grpc.BidiStreamingServer[gatherv1.AttachRequest, gatherv1.AttachResponse]) error {
	first, err := daemon.Receive(stream, heartbeat)
	if err != nil {
		return err
	}
	session, err := s.Roster.Attach(first.GetClient(), first.GetLabels(), peerOf(stream.Context()),
		roster.Process{Incarnation: first.GetIncarnation(), Returns: first.GetReturns()})
	if err != nil {
		return err
	}
	if session.Told().Ended == "" {
		session.Report(first.GetWaitingBytes())
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	heard := make(chan struct{}, 1)
	go func() { cancel(listen(stream, session, heard)) }()
	if err := tell(ctx, stream, session, heard); err != nil {
		session.CutOff()
		return err
	}
	session.Leave()
	return nil
}

// listen takes what a client says of itself, until it leaves.
func listen(stream grpc.BidiStreamingServer[gatherv1.AttachRequest, gatherv1.AttachResponse], session *roster.Session, heard chan<- struct{}) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		session.Report(request.GetWaitingBytes())
		select {
		case heard <- struct{}{}:
		default: // one is due already
		}
	}
}

// tell tells a client what to do, whenever that changes and in answer to its heartbeats.
func tell(ctx context.Context, stream grpc.BidiStreamingServer[gatherv1.AttachRequest, gatherv1.AttachResponse], session *roster.Session, heard <-chan struct{}) error {
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for {
		told := session.Told()
		err := stream.Send(&gatherv1.AttachResponse{
			Session: session.ID, Interval: durationpb.New(heartbeat),
			Connections: uint32(told.Connections), Paused: told.Paused, Ended: told.Ended,
		})
		if err != nil || told.Ended != "" {
			return err
		}
		select {
		case <-told.Changed:
		case <-heard:
			silence.Reset(patience)
		case <-silence.C:
			select {
			case <-heard: // by this process, which was slow
				silence.Reset(patience)
			default:
				return daemon.ErrSilent
			}
		case <-ctx.Done():
			if err := context.Cause(ctx); err != io.EOF { //nolint:errorlint // the stream returns it as it is
				return err
			}
			return nil
		}
	}
}
