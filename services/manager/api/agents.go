package api

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/survey"
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
	desk, err := a.server.desk()
	if err != nil {
		return err
	}
	attachment, measurer := desk.AttachAgent(name), survey.Agent(name)
	defer attachment.Close()
	desk.Survey().Begin(measurer, incarnation)
	return converse(stream, first, attachment, conversation[*agentv1.ControlRequest, *agentv1.ControlResponse, *groupv1.Assignments]{
		patience: group.Expiry,
		answer: func(req *agentv1.ControlRequest) (*agentv1.ControlResponse, bool, error) {
			if req == first {
				answer := controlAnswer(agentv1.AgentState_AGENT_STATE_ONLINE, incarnation, attachment)
				answer.Measuring = desk.Survey().Ask(measurer)
				return answer, false, nil
			}
			registry, err := a.server.registry()
			if err != nil {
				return nil, false, err
			}
			if req.GetReport().GetGoodbye() {
				desk.Goodbye(name)
				gone := controlAnswer(agentv1.AgentState_AGENT_STATE_OFFLINE, incarnation, attachment)
				return gone, true, registry.Goodbye(stream.Context(), name, incarnation)
			}
			state := registry.Report(name, incarnation)
			answer := controlAnswer(state, incarnation, attachment)
			online := state == agentv1.AgentState_AGENT_STATE_ONLINE
			if online {
				desk.ReportAgent(name, req.GetReport())
				desk.Survey().Take(measurer, req.GetReport().GetRoundTrips())
				answer.Measuring = desk.Survey().Ask(measurer)
			}
			return answer, !online, nil
		},
		empty: func() *agentv1.ControlResponse {
			return controlAnswer(agentv1.AgentState_AGENT_STATE_ONLINE, incarnation, attachment)
		},
		add: func(to *agentv1.ControlResponse, assignments *groupv1.Assignments) {
			to.Assignments, to.ReportInterval = assignments, reportInterval(attachment)
		},
	})
}

func controlAnswer(state agentv1.AgentState, incarnation uint64, attachment *delivery.Attachment) *agentv1.ControlResponse {
	return &agentv1.ControlResponse{
		State: state, Incarnation: incarnation, ReportInterval: reportInterval(attachment), ManagerTime: timestamppb.Now(),
	}
}

// reportInterval returns how often an agent is to report: more often while it has something to do.
func reportInterval(attachment *delivery.Attachment) *durationpb.Duration {
	if attachment.Busy() {
		return durationpb.New(delivery.ReportInterval)
	}
	return durationpb.New(group.HeartbeatInterval)
}

func (a *agentService) ListAgents(ctx context.Context, req *agentv1.ListAgentsRequest) (*agentv1.ListAgentsResponse, error) {
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	desk, err := a.server.desk()
	if err != nil {
		return nil, err
	}
	if err := a.server.View.Sync(ctx); err != nil {
		return nil, err
	}
	agents, more := a.server.View.Agents(after, limit)
	for i, agent := range agents {
		agents[i] = proto.CloneOf(agent)
		agents[i].Report = desk.LastReport(agent.GetName())
		desk.Survey().Show(agents[i])
	}
	return &agentv1.ListAgentsResponse{Agents: agents, NextPageToken: nextPage(agents, more)}, nil
}
