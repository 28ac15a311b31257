package api

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/controller"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// ListClients returns all clients.
func (s *Server) ListClients(context.Context, *gatherv1.ListClientsRequest) (*gatherv1.ListClientsResponse, error) {
	round, _ := s.Controller.Last()
	return &gatherv1.ListClientsResponse{Clients: s.clients(), Round: s.round(round)}, nil
}

// WatchClients sends all clients after every round.
func (s *Server) WatchClients(_ *gatherv1.WatchClientsRequest, stream grpc.ServerStreamingServer[gatherv1.WatchClientsResponse]) error {
	for {
		if err := s.Revocations.Revoked(peerOf(stream.Context())); err != nil {
			return err
		}
		round, changed := s.Controller.Last()
		if err := stream.Send(&gatherv1.WatchClientsResponse{Clients: s.clients(), Round: s.round(round)}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.Roster.Stopping():
			return roster.ErrStopping
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *Server) round(round controller.Round) *gatherv1.Round {
	return &gatherv1.Round{
		Controller: s.Controller.Name, Time: timestamppb.New(round.At), AvailableBytesPerSecond: uint64(round.Available),
		ReceivedBytesPerSecond: uint64(round.Received), WindowBytes: uint64(round.Window), Took: durationpb.New(round.Took),
	}
}

func (s *Server) clients() (messages []*gatherv1.Client) {
	for _, status := range s.Roster.Clients() {
		messages = append(messages, clientMessage(status))
	}
	return messages
}

func clientMessage(status roster.Status) *gatherv1.Client {
	return &gatherv1.Client{
		Name: status.Name, Attached: status.Attached, Share: status.Share.Message(), BytesPerSecond: status.Rate,
		RoundTrip: durationpb.New(status.RTT), WindowBytes: uint64(status.Window), Connections: uint32(status.Connections),
		WantedConnections: uint32(status.Wanted), State: string(status.State), Bottleneck: string(status.Bottleneck),
		Reason: string(status.Reason), Paused: status.Paused, ReceivedBytes: status.Received, Uploads: uint32(status.Uploads),
		AttachTime: timestamppb.New(status.Since),
	}
}

// GetPolicy returns who is to get what.
func (s *Server) GetPolicy(context.Context, *gatherv1.GetPolicyRequest) (*gatherv1.GetPolicyResponse, error) {
	current, revision := s.Policy.Get()
	return &gatherv1.GetPolicyResponse{Policy: current.Message(), Revision: revision}, nil
}

// SetPolicy replaces the policy.
func (s *Server) SetPolicy(_ context.Context, request *gatherv1.SetPolicyRequest) (*gatherv1.SetPolicyResponse, error) {
	if request.GetPolicy() == nil { // as if its name was misspelt: an empty policy has to be there to be meant
		return nil, fmt.Errorf("%w: policy: is missing", errInvalid)
	}
	next := policy.Of(request.GetPolicy())
	revision, err := s.Policy.Set(next, request.GetRevision())
	if err != nil {
		return nil, err
	}
	return &gatherv1.SetPolicyResponse{Policy: next.Message(), Revision: revision}, nil
}
