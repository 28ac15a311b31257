package manager_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// agentProcess is the manager's side of an agent: its registration and reports.
type agentProcess struct {
	stop  context.CancelFunc
	ended chan error
}

func startAgent(t *testing.T, config sdk.Config, node string) *agentProcess {
	t.Helper()
	link := managertest.Dial(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	a := &agentProcess{stop: cancel, ended: make(chan error, 1)}
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() {
		a.ended <- link.Register(ctx,
			&agentv1.Registration{Node: node, Zone: "zone-a", Addresses: []string{"10.0.0.1:7410"}, Capacity: &agentv1.Capacity{CacheBytes: 1 << 30}},
			func() *agentv1.Report { return &agentv1.Report{Connections: 3} }, nil)
	})
	return a
}

func agentIs(t *testing.T, client *sdk.Client, name, state string) sdk.Agent {
	t.Helper()
	var found sdk.Agent
	eventually(t, 20*time.Second, name+" is "+state, func() bool {
		agents, err := client.Agents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range agents {
			if agent.Name == name {
				found = agent
				return agent.State == state
			}
		}
		return state == "gone"
	})
	return found
}

func TestAgentLife(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	config := m.Enroll(t, sdk.Token{Role: "agent", Name: "a1"})

	first := startAgent(t, config, "node-1")
	before := agentIs(t, client, "a1", "online")
	if before.Node != "node-1" || before.Zone != "zone-a" || len(before.Addresses) != 1 {
		t.Errorf("listed as %+v", before)
	}

	second := startAgent(t, config, "node-2") // the same agent, started elsewhere
	var fenced *uplink.AgentFenced
	if err := <-first.ended; !errors.As(err, &fenced) {
		t.Fatalf("the first incarnation ended with %v, want fenced", err)
	}
	after := agentIs(t, client, "a1", "online")
	if after.Node != "node-2" || after.Incarnation <= before.Incarnation {
		t.Errorf("listed as %+v after %+v", after, before)
	}

	second.stop()
	if err := <-second.ended; err != nil {
		t.Errorf("an agent that stops: %v", err)
	}
	agentIs(t, client, "a1", "gone")
}

// An agent that an operator has put out is offline, and nobody misses it.
func TestRevokedAgentIsNotMissed(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	client := m.Client(t)
	startAgent(t, m.Enroll(t, sdk.Token{Role: "agent", Name: "a1"}), "node-1")
	agentIs(t, client, "a1", "online")
	if err := client.Revoke(t.Context(), "agent", "a1"); err != nil {
		t.Fatal(err)
	}
	agentIs(t, client, "a1", "offline")
	if status, err := client.Status(t.Context()); err != nil || status.AgentsOnline != 0 || status.AgentsOffline != 0 {
		t.Errorf("%+v (%v), want no agent that is missed", status, err)
	}
}

// Every manager shows what agents report, also one that does not lead.
func TestReportsAreShownByAll(t *testing.T) {
	cluster := managertest.StartCluster(t, 2)
	leader := cluster.Leader(t)
	other := cluster.Follower(leader)
	startAgent(t, letIn(t, mustRead(t, leader.Access), "agent", "a1"), "node-1")
	for _, asked := range []*managertest.Process{leader, other} {
		client := asked.Client(t)
		eventually(t, 20*time.Second, asked.Address+" shows what a1 reports", func() bool {
			agents, err := client.Agents(t.Context())
			return err == nil && len(agents) == 1 && agents[0].Links == 3
		})
	}
}

// C3: an agent that is silent is given up. When it comes back it is another incarnation, though it asks to go on as the one that it was; and so
// it is if it asks again, because it did not hear the answer.
func TestC3SilentAgentGoesOffline(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	client := m.Client(t)
	link := managertest.Dial(t, m.Enroll(t, sdk.Token{Role: "agent", Name: "a1"}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	register := func(incarnation uint64) uint64 {
		stream, err := agentv1.NewAgentServiceClient(link).Control(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&agentv1.ControlRequest{Message: &agentv1.ControlRequest_Registration{Registration: &agentv1.Registration{Node: "n", Incarnation: incarnation}}}); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil || answer.GetState() != agentv1.AgentState_AGENT_STATE_ONLINE {
			t.Fatalf("registration answered by %v %v", answer, err)
		}
		return answer.GetIncarnation()
	}
	first := register(0) // and no report
	start := time.Now()
	if again := register(first); again != first {
		t.Errorf("incarnation %d after its connection broke, want %d as before", again, first)
	}
	agentIs(t, client, "a1", "online")
	agentIs(t, client, "a1", "offline")
	if silence := time.Since(start); silence < group.Expiry {
		t.Errorf("offline after %v, want %v", silence, group.Expiry)
	}
	second := register(first)
	if again := register(first); second <= first || again != second {
		t.Errorf("incarnation %d, then %d, when it came back; it was %d", second, again, first)
	}
	agentIs(t, client, "a1", "online")
}

// An agent goes on as the same incarnation when the manager restarts.
func TestAgentSurvivesRestart(t *testing.T) {
	t.Parallel()
	p := managertest.NewProcess(t, t.TempDir())
	p.Start(t)
	p.WaitServing(t)
	client := p.Client(t)
	text, _, err := client.CreateToken(t.Context(), sdk.Token{Role: "agent", Name: "a1"})
	if err != nil {
		t.Fatal(err)
	}
	config := sdk.Config{Endpoints: []string{p.Address}, TrustDomain: sdk.DefaultTrustDomain, CredentialsDir: t.TempDir()}
	if _, err := sdk.Enroll(t.Context(), config, text); err != nil {
		t.Fatal(err)
	}
	startAgent(t, config, "node-1")
	before := agentIs(t, client, "a1", "online")
	p.Kill()
	p.Start(t)
	p.WaitServing(t)
	wait(t, 12*time.Second) // longer than the manager waits for it
	if after := agentIs(t, client, "a1", "online"); after.Incarnation != before.Incarnation {
		t.Errorf("incarnation %d after the restart, want %d as before", after.Incarnation, before.Incarnation)
	}
}

// controlled returns a control stream of an agent that has registered as an incarnation, and the incarnation that it got.
func controlled(t *testing.T, link *uplink.Uplink, incarnation uint64) (stream agentv1.AgentService_ControlClient, got uint64) {
	t.Helper()
	stream, err := agentv1.NewAgentServiceClient(link).Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := said(t, stream, &agentv1.ControlRequest{Message: &agentv1.ControlRequest_Registration{Registration: &agentv1.Registration{Node: "n", Incarnation: incarnation}}})
	if answer.GetState() != agentv1.AgentState_AGENT_STATE_ONLINE {
		t.Fatalf("registration answered by %v", answer)
	}
	return stream, answer.GetIncarnation()
}

func said(t *testing.T, stream agentv1.AgentService_ControlClient, message *agentv1.ControlRequest) *agentv1.ControlResponse {
	t.Helper()
	if err := stream.Send(message); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// An agent that stops leaves its successor alone, whether it knows of that or not.
func TestStoppingAgentLeavesItsSuccessorAlone(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	client := m.Client(t)
	config := m.Enroll(t, sdk.Token{Role: "agent", Name: "a1"})
	former := startAgent(t, config, "node-1")
	before := agentIs(t, client, "a1", "online")
	late, _ := controlled(t, managertest.Dial(t, config), before.Incarnation)
	_, successor := controlled(t, managertest.Dial(t, config), 0)
	former.stop()
	if err := <-former.ended; err != nil {
		var fenced *uplink.AgentFenced
		if !errors.As(err, &fenced) { // otherwise it has heard of its successor before it was stopped
			t.Fatal(err)
		}
	}
	goodbye := &agentv1.ControlRequest{Message: &agentv1.ControlRequest_Report{Report: &agentv1.Report{Goodbye: true}}}
	if answer := said(t, late, goodbye); answer.GetState() != agentv1.AgentState_AGENT_STATE_FENCED {
		t.Errorf("a goodbye after the successor came is answered by %v, want fenced", answer.GetState())
	}
	if agent := agentIs(t, client, "a1", "online"); agent.Incarnation != successor {
		t.Errorf("incarnation %d, want that of the successor, %d", agent.Incarnation, successor)
	}
}
