package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/version"
)

type managerService struct {
	groupv1.UnimplementedManagerServiceServer
	server *Server
}

// GetStatus answers from what this manager sees, without asking the store: it
// must work when little else does.
func (m *managerService) GetStatus(context.Context, *groupv1.GetStatusRequest) (*groupv1.GetStatusResponse, error) {
	leader := m.server.Leading.Leader()
	counts := m.server.View.Count()
	response := &groupv1.GetStatusResponse{
		Name: m.server.Name, Version: version.String(),
		Leader: leader.Name, Term: leader.Term, Revision: uint64(m.server.View.Revision()),
		Groups: uint32(counts.Groups), Members: uint32(counts.Members),
		AgentsOnline: uint32(counts.AgentsOnline), AgentsOffline: uint32(counts.AgentsOffline),
		StartTime: timestamppb.New(m.server.Started), TrustDomain: m.server.TrustDomain,
	}
	if err := m.server.Room(); err != nil {
		response.ReadOnlyReason = err.Error()
	}
	return response, nil
}
