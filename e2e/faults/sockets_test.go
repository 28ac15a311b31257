package faults_test

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab"
)

// The sender, and each agent that sends, uses the congestion control that was asked for, on each connection of a link.
func TestCongestionIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	const stripes = 3
	n := faults.Start(t, faults.Topology{
		Agents: 2, Members: "ab", Flags: map[string][]string{"agent-a": {"--data-least-stripes", fmt.Sprint(stripes)}, "agent-b": {"--data-least-stripes", fmt.Sprint(stripes)}},
	})
	others := n.OtherCongestions()
	if len(others) == 0 {
		t.Fatal("this machine has no congestion control but its own: nothing can be shown")
	}
	for _, name := range others {
		p := n.Push(n.Object(name, size), "--congestion", name, "--rate", "2MB")
		n.AwaitBytes(p, "m2", 1)
		for _, feeds := range []struct {
			process  *lab.Process
			from, to string
			most     int
		}{
			{p.Process, "sender", "agent-a", 1},
			{n.Machine("agent-a").Process, "agent-a", "agent-b", stripes},
			{n.Machine("agent-a").Process, "agent-a", "m1", stripes},
			{n.Machine("agent-b").Process, "agent-b", "m2", stripes},
		} {
			n.Await(fmt.Sprintf("%s feeds %s over %d connections with %s", feeds.from, feeds.to, feeds.most, name), func() bool {
				return n.Congestions(feeds.process, feeds.to)[name] == feeds.most
			})
		}
		n.AwaitComplete(p)
	}
}

// In plaintext the kernel moves what comes to an agent into its cache, and from there to its children. What the kernel sends
// out of a file counts as read by the agent, once for each child, and nothing else does.
func TestPlaintextIsNotReadByAgents(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "bb", Policy: []string{"--data-plane", "plaintext"}})
	a, b := n.Machine("agent-a"), n.Machine("agent-b")
	readByA, readByB := a.Read(t), b.Read(t)
	n.AwaitComplete(n.Push(n.Object("model", 2*size)))
	for m, c := range map[*faults.Machine]struct{ before, children int64 }{a: {readByA, 1}, b: {readByB, 2}} {
		read := m.Read(t) - c.before
		t.Logf("%s has read %.2f times what it sent to %d children", m.Name(), float64(read)/float64(2*size), c.children)
		if read > 2*size*c.children+size {
			t.Errorf("%s has read %d bytes to send %d to %d children", m.Name(), read, 2*size, c.children)
		}
	}
}
