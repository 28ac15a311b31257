package api

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

type agentService struct {
	agentv1.UnimplementedAgentServiceServer
	server *Server
}

// Control registers an agent and answers its reports.
func (a *agentService) Control(stream agentv1.AgentService_ControlServer) error {
	first, err := receive(stream, group.HeartbeatInterval)
	if err != nil {
		return endOfStream(err)
	}
	if first.GetRegistration() == nil {
		return &ledger.Invalid{Violations: []ledger.Violation{{Field: "registration", Problem: "must come first"}}}
	}
	registry, err := a.server.registry()
	if err != nil {
		return err
	}
	name := callerOf(stream.Context()).ID.Name
	incarnation, err := registry.Register(stream.Context(), name, first.GetRegistration())
	if errors.Is(err, ledger.ErrReplaced) {
		return stream.Send(&agentv1.ControlResponse{State: agentv1.AgentState_AGENT_STATE_FENCED})
	}
	if err != nil {
		return err
	}
	state := agentv1.AgentState_AGENT_STATE_ONLINE
	for {
		err := stream.Send(&agentv1.ControlResponse{
			State: state, Incarnation: incarnation, ReportInterval: durationpb.New(group.HeartbeatInterval),
		})
		if err != nil || state != agentv1.AgentState_AGENT_STATE_ONLINE {
			return err
		}
		report, err := receive(stream, group.Expiry)
		if err != nil {
			return endOfStream(err)
		}
		if registry, err = a.server.registry(); err != nil {
			return err
		}
		if report.GetReport().GetGoodbye() {
			return registry.Goodbye(stream.Context(), name, incarnation)
		}
		state = registry.Report(name, incarnation)
	}
}

func (a *agentService) ListAgents(ctx context.Context, req *agentv1.ListAgentsRequest) (*agentv1.ListAgentsResponse, error) {
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if err := a.server.View.Sync(ctx); err != nil {
		return nil, err
	}
	agents, more := a.server.View.Agents(after, limit)
	return &agentv1.ListAgentsResponse{Agents: agents, NextPageToken: nextPage(agents, more)}, nil
}
