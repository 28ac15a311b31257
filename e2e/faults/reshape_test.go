package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// "When data accumulation occurs, the host […] is moved to a lower level in the multicast tree […]
// where it will no longer adversely affect other hosts" (002 §3.1.2): this happens while data
// flows, and no byte is sent twice for it. The next delivery starts with what was learnt.
func TestSlowAgentMovesDown(t *testing.T) {
	const size = 32 << 20
	slow := link.Shape{Rate: 16 * link.Mbit, Delay: time.Millisecond, Queue: link.Packets(100)}
	n := faults.Start(t, faults.Topology{Agents: 4, Members: "abcd", Cables: map[string]link.Shape{"agent-b": slow}})
	first := n.Push(n.Object("first", size))
	others := func(p *faults.Push) { // all but m2, whose agent is the slow one: wherever that is in the tree
		for _, member := range []string{"m1", "m3", "m4"} {
			n.AwaitBytes(p, member, size)
		}
	}
	others(first)
	if got := n.Received(n.Machine("m2"), first.Object); got > size*3/4 {
		t.Errorf("the others had all when m2 had %d bytes of %d: they were held up", got, size)
	}
	wantChanges(t, n, first, "created", "agent_lags")
	n.AwaitComplete(first)
	for _, agent := range n.Agents {
		if got := n.Metric(agent.Name(), "groupcast_agent_received_bytes_total"); got > 1.02*size {
			t.Errorf("%s received %.0f bytes for %d", agent.Name(), got, size)
		}
	}
	second := n.Push(n.Object("second", size))
	others(second)
	wantChanges(t, n, second, "created")
	n.AwaitComplete(second)
}

// An agent that takes as fast as all others and gives slowly would hold up all agents below it, whichever they are. One of
// those changes places with it for a while, which shows which of them is to blame, unless what the agent acknowledges waits behind
// what it sends, so that it takes slowly, too. The next delivery starts with what was learnt.
func TestSlowGiverMovesDown(t *testing.T) {
	const size = 64 << 20
	n := faults.Start(t, faults.Topology{Agents: 5, Members: "abcde", Cables: map[string]link.Shape{"agent-b": {}}})
	n.ThrottleSending("agent-b", 32*link.Mbit)
	others := func(p *faults.Push) { // all but m2, whose agent is the slow one: wherever that is in the tree
		for _, member := range []string{"m1", "m3", "m4", "m5"} {
			n.AwaitBytes(p, member, size)
		}
	}
	first := n.Push(n.Object("first", size))
	others(first)
	n.Await("agent-b was the last to move, of three at most", func() bool {
		changes := n.Delivery(first.ID).GetTreeChanges()
		return len(changes) <= 1+3 && strings.HasPrefix(changes[len(changes)-1].GetDetail(), "agent/agent-b is fed by ")
	})
	n.AwaitComplete(first)
	for _, agent := range n.Agents {
		if got := n.Metric(agent.Name(), "groupcast_agent_received_bytes_total"); got > 1.02*size {
			t.Errorf("%s received %.0f bytes for %d", agent.Name(), got, size)
		}
	}
	second := n.Push(n.Object("second", size))
	others(second)
	wantChanges(t, n, second, "created")
	n.AwaitComplete(second)
}

// wantChanges checks the causes of the changes of a delivery's tree.
func wantChanges(t *testing.T, n *faults.Net, p *faults.Push, want ...string) {
	t.Helper()
	changes := n.Delivery(p.ID).GetTreeChanges()
	for i, change := range changes {
		t.Logf("%d %s: %s", change.GetVersion(), change.GetCause(), change.GetDetail())
		if i >= len(want) || change.GetCause() != want[i] {
			t.Errorf("change %d is for %s, want %v", i, change.GetCause(), want)
		}
	}
	if len(changes) < len(want) {
		t.Errorf("the tree changed %d times, want %v", len(changes), want)
	}
}
