package group

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && host != "" && port != "" && len(address) <= maxTextLength
}

// loadAgents takes over the agents of an earlier term.
func (r *Registry) loadAgents(now time.Time) {
	for _, agent := range r.view.AllAgents() {
		if agent.GetState() == agentv1.AgentState_AGENT_STATE_ONLINE {
			r.agents.Presume(agent.GetName(), now)
		} else {
			r.offline.Heard(agent.GetName(), now)
		}
	}
}

// RegisterAgent notes an agent and returns its incarnation. An agent that goes on as
// an incarnation that is still the newest keeps it, unless it was given up meanwhile: then it is a
// new one, however often it asks as the former, since it may not have heard the answer. A member that relays may register
// as often as it may join.
func (r *Registry) RegisterAgent(ctx context.Context, name string, asked *agentv1.Registration) (incarnation uint64, err error) {
	var problems ledger.Checks
	checkPlace(&problems, asked.GetNode(), asked.GetAddresses(), asked.GetLabels())
	problems.That(len(asked.GetZone()) <= maxTextLength, "zone", "is longer than %d characters", maxTextLength)
	if err := problems.Err(); err != nil {
		return 0, err
	}
	if err := r.checkRelay(name); err != nil {
		return 0, err
	}
	err = r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		current, _ := r.view.Agent(name)
		var former uint64
		is := asked.GetIncarnation()
		goesOn, err := ledger.GoesOn(is, current.GetIncarnation())
		switch incarnation = r.ledger.Next(); {
		case goesOn && current.GetState() != agentv1.AgentState_AGENT_STATE_ONLINE:
			former = is
		case goesOn, is != 0 && is == current.GetFormerIncarnation():
			incarnation, former = current.GetIncarnation(), current.GetFormerIncarnation()
		case err != nil:
			return ledger.Plan{}, fmt.Errorf("agent %q, %w", name, err)
		}
		r.registered(name) // before it is written: an agent that was found silent just now is left alone
		return putAgent(&agentv1.Agent{
			Name: name, Incarnation: incarnation, FormerIncarnation: former, Node: asked.GetNode(), Zone: asked.GetZone(), Addresses: asked.GetAddresses(),
			Capacity: asked.GetCapacity(), Labels: asked.GetLabels(),
			State: agentv1.AgentState_AGENT_STATE_ONLINE, RegisterTime: timestamppb.Now(),
		}, current.Changed)
	})
	if incarnation != 0 { // the change may be written although the stream broke off: then the agent has to be found silent
		r.registered(name)
	}
	if err != nil {
		return 0, err
	}
	return incarnation, nil
}

// checkRelay refuses a member that relays and registers again and again: each time, all groups' deliveries are looked at.
func (r *Registry) checkRelay(name string) error {
	if _, _, relays := (identity.ID{Role: identity.Agent, Name: name}).Relay(); !relays {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isFlapping(seat{member: name}, time.Now()) {
		return &ledger.RateLimited{What: fmt.Sprintf("agent %q registers", name), Retry: time.Second}
	}
	return nil
}

func (r *Registry) registered(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents.Presume(name, time.Now())
	r.offline.Forget(name)
}

func putAgent(agent *agentv1.Agent, changed store.Revision) (ledger.Plan, error) {
	return ledger.PutMessage(view.AgentKey(agent.GetName()), agent, changed)
}

// ReportAgent notes that an agent lives. It returns FENCED if a newer incarnation has
// come, and OFFLINE if the agent was given up meanwhile and must register again.
func (r *Registry) ReportAgent(name string, incarnation uint64) agentv1.AgentState {
	agent, known := r.view.Agent(name)
	switch {
	case known && agent.GetIncarnation() > incarnation:
		return agentv1.AgentState_AGENT_STATE_FENCED
	case !known || agent.GetState() != agentv1.AgentState_AGENT_STATE_ONLINE:
		return agentv1.AgentState_AGENT_STATE_OFFLINE
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents.Heard(name, time.Now())
	return agentv1.AgentState_AGENT_STATE_ONLINE
}

// AgentParted is SessionParted of an agent.
func (r *Registry) AgentParted(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deaf {
		r.agents.Doubt(name)
	}
}

// ForgetAgent forgets an agent that stops. Its name stays among those that are to be heard: another may have it by now.
func (r *Registry) ForgetAgent(ctx context.Context, name string, incarnation uint64) error {
	return r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		agent, known := r.view.Agent(name)
		if !known || agent.GetIncarnation() != incarnation {
			return ledger.Plan{}, nil
		}
		return ledger.Remove(view.AgentKey(name), agent.Changed), nil
	})
}

// sweepAgents marks silent agents offline, and forgets agents that have been offline for long.
func (r *Registry) sweepAgents(ctx context.Context) {
	r.mu.Lock()
	now := time.Now()
	silent, forgotten := r.agents.Silent(now), r.offline.Silent(now)
	r.mu.Unlock()
	for _, name := range silent {
		isOffline, err := r.setOffline(ctx, name)
		if err != nil {
			r.log.Warn("a silent agent could not be marked offline; trying again", "agent", name, "error", err)
			r.presume(r.agents, name)
			continue
		}
		if !isOffline {
			continue
		}
		r.log.Info("an agent is silent and counts as offline", "agent", name)
		r.presume(r.offline, name)
	}
	for _, name := range forgotten {
		agent, known := r.view.Agent(name)
		if !known || agent.GetState() == agentv1.AgentState_AGENT_STATE_ONLINE {
			continue
		}
		if err := r.ForgetAgent(ctx, name, agent.GetIncarnation()); err != nil {
			r.presume(r.offline, name)
		}
	}
}

// presume has an agent be found silent after a table's patience, unless it is heard.
func (r *Registry) presume(table interface{ Presume(string, time.Time) }, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	table.Presume(name, time.Now())
}

// setOffline marks an agent offline that was found silent, unless it has said goodbye, or was heard since.
func (r *Registry) setOffline(ctx context.Context, name string) (isOffline bool, err error) {
	err = r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		agent, known := r.view.Agent(name)
		isOffline = known && !r.isHeard(name)
		if !isOffline {
			return ledger.Plan{}, nil
		}
		next := proto.CloneOf(agent.Agent)
		next.State = agentv1.AgentState_AGENT_STATE_OFFLINE
		return putAgent(next, agent.Changed)
	})
	return isOffline, err
}

func (r *Registry) isHeard(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agents.Knows(name)
}
