package api

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/daemon"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

type agentService struct {
	agentv1.UnimplementedAgentServiceServer
	server *Server
}

// Control registers an agent and answers its reports.
func (a *agentService) Control(stream agentv1.AgentService_ControlServer) error {
	first, err := daemon.Receive(stream, group.HeartbeatInterval)
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
	name := callerOf(stream.Context()).Name
	incarnation, err := registry.RegisterAgent(stream.Context(), name, first.GetRegistration())
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
	c := &agentControl{
		server: a.server, desk: desk, name: name, incarnation: incarnation, attachment: desk.AttachAgent(name), measurer: survey.Agent(name),
	}
	defer c.attachment.Close()
	defer registry.AgentParted(name)
	desk.Survey().Begin(c.measurer, incarnation)
	return converse(stream, first, c.attachment, conversation[*agentv1.ControlRequest, *agentv1.ControlResponse, *groupv1.Assignments]{
		patience: group.Expiry,
		answer: func(req *agentv1.ControlRequest) (*agentv1.ControlResponse, bool, error) {
			if req == first {
				return c.measuring(), false, nil
			}
			return c.take(stream.Context(), req.GetReport())
		},
		empty: func() *agentv1.ControlResponse { return c.answer(agentv1.AgentState_AGENT_STATE_ONLINE) },
		add: func(to *agentv1.ControlResponse, assignments *groupv1.Assignments) {
			to.Assignments, to.ReportInterval = assignments, reportInterval(c.attachment)
		},
	})
}

// agentControl is the control stream of an agent that has registered.
type agentControl struct {
	server      *Server
	desk        *delivery.Desk
	name        string
	incarnation uint64
	attachment  *delivery.Attachment
	measurer    survey.Node
}

// take takes a report and answers it. last says that nothing follows: the agent is no longer wanted, or stops.
func (c *agentControl) take(ctx context.Context, report *agentv1.Report) (answer *agentv1.ControlResponse, last bool, err error) {
	registry, err := c.server.registry()
	if err != nil {
		return nil, false, err
	}
	state := registry.ReportAgent(c.name, c.incarnation)
	switch {
	case report.GetGoodbye() && state != agentv1.AgentState_AGENT_STATE_FENCED: // its goodbye is not for the agent that has fenced it
		c.desk.Goodbye(c.name)
		return c.answer(agentv1.AgentState_AGENT_STATE_OFFLINE), true, registry.ForgetAgent(ctx, c.name, c.incarnation)
	case state != agentv1.AgentState_AGENT_STATE_ONLINE:
		return c.answer(state), true, nil
	}
	c.attachment.ReportAgent(report)
	c.desk.Survey().Take(c.measurer, report.GetRoundTrips())
	return c.measuring(), false, nil
}

// measuring answers an agent that is wanted, and says which agents it is to measure.
func (c *agentControl) measuring() *agentv1.ControlResponse {
	answer := c.answer(agentv1.AgentState_AGENT_STATE_ONLINE)
	answer.Measuring = c.desk.Survey().Ask(c.measurer)
	return answer
}

func (c *agentControl) answer(state agentv1.AgentState) *agentv1.ControlResponse {
	return &agentv1.ControlResponse{
		State: state, Incarnation: c.incarnation, ReportInterval: reportInterval(c.attachment), ManagerTime: timestamppb.Now(),
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
	shown, all := view.Fill(showAgents(desk, agents))
	return &agentv1.ListAgentsResponse{Agents: shown, NextPageToken: nextPage(shown, more || !all)}, nil
}

// showAgents yields agents with what is known of them beyond their records.
func showAgents(desk *delivery.Desk, records []*agentv1.Agent) iter.Seq[*agentv1.Agent] {
	return func(yield func(*agentv1.Agent) bool) {
		for _, record := range records {
			agent := proto.CloneOf(record)
			agent.Report = desk.LastReport(agent.GetName())
			desk.Survey().Show(agent)
			if !yield(agent) {
				return
			}
		}
	}
}
