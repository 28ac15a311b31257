package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab/link"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
)

// mostStall is how long bytes may stop when an agent is lost (E, goal 4).
const mostStall = 5 * time.Second

// lose loses agents one after another, each in the middle of a delivery of its own. It checks that
// the nodes that the agent fed get nothing only for a moment, and that nobody gets a byte twice.
func lose(t *testing.T, rounds int, lost, back func(n *faults.Net, agent string), flags ...string) {
	// On a busy machine links would have several connections, and then what came ahead of a gap comes again.
	single := []string{"--data-stripes", "1"}
	n := faults.Start(t, faults.Topology{
		Agents: 3, Members: "abbc", Flags: map[string][]string{"agent-a": single, "agent-b": single, "agent-c": single},
	})
	var all faults.Distribution
	for round := range rounds {
		// The agent is the one that the sender feeds, or one that others feed.
		agent, witness := "agent-b", []string{"m2", "m3"}
		if round%3 == 2 {
			agent, witness = "agent-a", []string{"m1", "m2", "m3", "m4"}
		}
		p := n.Push(n.Object(fmt.Sprintf("model-%d", round), 16<<20), append(flags, "--rate", "12MB")...)
		stalls := n.WatchStalls(p)
		n.AwaitBytes(p, "m2", 2<<20)
		lost(n, agent)
		n.AwaitComplete(p)
		for _, name := range witness {
			all = append(all, stalls.Of(name))
		}
		stalls.End()
		back(n, agent)
		n.AwaitReady()
		n.WantNothingTwice()
	}
	t.Logf("stalls: %v", all)
	if worst := all.Quantile(0.99); worst > mostStall {
		t.Errorf("bytes stood still for %v at p99, want %v at most", worst, mostStall)
	}
}

// Over links of several connections, what had come ahead of a gap when the agent was lost comes again: no more than a link carries while one of them waits for what was lost.
func TestC1LinksOfSeveralConnections(t *testing.T) {
	t.Parallel()
	lossy := link.Shape{Rate: 60 * link.Mbit, Delay: 5 * time.Millisecond, Loss: 0.01}
	four := []string{"--data-stripes", "4", "--data-least-stripes", "4"}
	n := faults.Start(t, faults.Topology{
		Agents: 3, Members: "abbc", Flags: map[string][]string{"agent-a": four, "agent-b": four, "agent-c": four},
		Cables: map[string]link.Shape{"m2": lossy, "m3": lossy},
	})
	for _, agent := range []string{"agent-b", "agent-a"} {
		p := n.Push(n.Object("model of "+agent, 16<<20), "--rate", "12MB")
		n.AwaitBytes(p, "m2", 4<<20)
		n.Kill(agent)
		n.AwaitComplete(p)
		n.Restart(agent)
		n.AwaitReady()
	}
	n.WantTwice(2 << 20)
}

func kill(n *faults.Net, agent string)    { n.Kill(agent) }
func restart(n *faults.Net, agent string) { n.Restart(agent) }

// An agent that dies in the middle of a delivery costs its children a pause, but nobody a byte:
// they go on at another agent where they were.
func TestC1AgentIsKilled(t *testing.T) {
	t.Parallel()
	lose(t, 10, kill, restart, "--mode", "end-to-end", "--ack", "received")
}

// The same with agents that acknowledge what nobody else has yet: the sender keeps it.
func TestC2AgentIsKilledThatAcknowledgedAlone(t *testing.T) {
	t.Parallel()
	lose(t, 6, kill, restart, "--mode", "hop", "--ack", "relayed")
}

// An agent that hangs is given up. When it goes on it is of use again, after its lease has ended, as a new
// incarnation. Nobody accepts a byte of what it still sends.
func TestC3AgentIsFrozen(t *testing.T) {
	t.Parallel()
	lose(t, 4,
		func(n *faults.Net, agent string) { n.Freeze(agent) },
		func(n *faults.Net, agent string) {
			before := n.Agent(agent).GetIncarnation()
			outlived := agent == "agent-a"
			if outlived {
				n.Await(agent+" is offline", func() bool { return n.Agent(agent).GetState() == agentv1.AgentState_AGENT_STATE_OFFLINE })
			}
			n.Thaw(agent)
			n.Await(agent+" is online", func() bool { return n.Agent(agent).GetState() == agentv1.AgentState_AGENT_STATE_ONLINE })
			if after := n.Agent(agent).GetIncarnation(); outlived && after <= before {
				t.Errorf("%s is incarnation %d, it was %d before its lease ended", agent, after, before)
			}
		})
}
