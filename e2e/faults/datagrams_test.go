package faults_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Datagrams on one path vanish while TCP gets through, as behind a firewall: every link lives, and nobody complains. The node that gets
// nothing is named, and it and those below it are fed by others.
func TestC15DatagramsVanish(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to       string // machine, and its name in the tree
		node     string
		unserved []string
		cause    string
	}{
		"between two agents":         {"agent-b", "agent/agent-b", []string{"m2", "m3"}, "agent_idle"},
		"from an agent to a member":  {"m2", "member/m2", []string{"m2"}, "member_unfed"},
		"from the sender to its one": {"agent-a", "agent/agent-a", []string{"m1", "m2", "m3", "m4"}, "agent_idle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc", Cables: map[string]link.Shape{test.to: {}}})
			stream := n.PushDatagrams("sensor")
			stream.AwaitMore(50, "m1", "m2", "m3", "m4")
			_, from, _ := strings.Cut(n.Parent(stream.Push, test.node), "/")
			proof := n.NoUDP(from, test.to)
			const named = 3 // at most so many are named in one line
			for _, member := range test.unserved[:min(len(test.unserved), named)] {
				n.Await("it is said that "+member+" gets nothing", func() bool { return isSaid(stream, "nothing comes to", member) })
			}
			stream.AwaitMore(100, test.unserved...)
			n.Await("it is said that they get it again", func() bool { return isSaid(stream, "datagrams come again to", test.unserved[0]) })
			if err := proof(); err != nil {
				t.Error(err)
			}
			stream.End()
			changes := stream.AwaitAccounts().GetTreeChanges()
			for _, change := range changes {
				t.Logf("%d %s: %s", change.GetVersion(), change.GetCause(), change.GetDetail())
			}
			if last := changes[len(changes)-1]; len(changes) > 2 || last.GetCause() != test.cause {
				t.Errorf("the tree changed %d times, last for %s: want once, for %s", len(changes)-1, last.GetCause(), test.cause)
			}
		})
	}
}

// isSaid reports whether a push has said something of a member.
func isSaid(stream *faults.Datagrams, what, member string) bool {
	return slices.ContainsFunc(strings.Split(stream.Process.Output(), "\n"), func(line string) bool {
		_, of, is := strings.Cut(line, what)
		return is && strings.Contains(of, member)
	})
}
