package faults_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// mostHalfOpen is how long a link may be kept whose other end is gone (E, goal 4).
const mostHalfOpen = 10 * time.Second

// mostOfTwoBlamed is how long bytes may stop if an agent blames its neighbour, which is taken out first: as long as an
// agent that moves nothing would stay if nobody complained.
const mostOfTwoBlamed = 15 * time.Second

// A cable is cut without notice, in the middle of a delivery.
func TestC4CutWithBytesUnderWay(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc", Cables: map[string]link.Shape{"agent-b": {}}})
	p := n.Push(n.Object("model", 32<<20), "--rate", "8MB")
	stalls := n.WatchStalls(p)
	n.AwaitBytes(p, "m2", 4<<20)
	n.Cut("agent-b")
	n.AwaitComplete(p)
	stalls.End()
	wantShortStalls(t, stalls, mostStall, "m2", "m3")
	n.Heal("agent-b")
	n.AwaitComplete(n.Push(n.Object("next", 1<<20)))
}

func wantShortStalls(t *testing.T, stalls *faults.Stalls, most time.Duration, members ...string) {
	t.Helper()
	for _, name := range members {
		t.Logf("%s stood still for %v", name, stalls.Of(name))
		if got := stalls.Of(name); got > most {
			t.Errorf("%s stood still for %v, want %v at most", name, got, most)
		}
	}
}

// The same while there is nothing to send: the agent notices, and gives the link up.
func TestC4CutWhileIdle(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb", Cables: map[string]link.Shape{"m2": {}}})
	p, stream := n.PushStream(n.Object("stream", 4<<20))
	stream.Write(0, 2<<20)
	n.AwaitStream(p, 2<<20)
	linked := n.Metric("agent-b", "groupcast_agent_links")
	n.Cut("m2")
	n.AwaitWithin(mostHalfOpen, "the agent gives the link up", func() bool { return n.Metric("agent-b", "groupcast_agent_links") < linked })
	n.Heal("m2")
	stream.Write(2<<20, 4<<20)
	stream.End()
	n.AwaitComplete(p)
}

// A member that hangs takes nothing: its window closes. The agent gives the link up and the others
// get everything meanwhile; so does the member when it goes on.
func TestC4ZeroWindow(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb"})
	p := n.Push(n.Object("model", 24<<20), "--rate", "8MB")
	n.AwaitBytes(p, "m2", 3<<20)
	linked := n.Metric("agent-b", "groupcast_agent_links")
	n.Freeze("m2")
	n.AwaitWithin(mostHalfOpen, "the agent gives the link up", func() bool { return n.Metric("agent-b", "groupcast_agent_links") < linked })
	n.AwaitBytes(p, "m1", 24<<20)
	n.AwaitBytes(p, "m3", 24<<20)
	n.Thaw("m2")
	n.AwaitComplete(p)
}

// What an agent keeps for a member that is gone is given back when the member's lease has ended. Nothing else is
// kept of a stream.
func TestC4CacheIsFreed(t *testing.T) {
	const segment = 1 << 20
	flags := map[string][]string{"agent-b": {"--cache-bytes=32MiB"}}
	t.Parallel()
	for name, lose := range map[string]func(n *faults.Net){
		"unacknowledged": func(n *faults.Net) { n.Cut("m2") },
		"zero window":    func(n *faults.Net) { n.Freeze("m2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb", Flags: flags, Cables: map[string]link.Shape{"m2": {}}})
			p, stream := n.PushStream(n.Object("stream", 24<<20))
			held := func() float64 { return n.Metric("agent-b", "groupcast_agent_cache_held_bytes") }
			stream.Write(0, 8<<20)
			n.AwaitStream(p, 8<<20)
			n.Await("nothing is kept but a part of a segment", func() bool { return held() < segment })
			lose(n)
			stream.Write(8<<20, 24<<20)
			n.Await("what the member lacks is kept", func() bool { return held() >= 8<<20 }) // the rest may be under way
			n.AwaitWithin(2*mostHalfOpen, "it is given back", func() bool { return held() < segment })
			stream.End()
			n.AwaitBytes(p, "m1", 24<<20)
			n.AwaitBytes(p, "m3", 24<<20)
			n.Kill("m2") // it would wait for the rest of the stream, of which it has a part
			if err := os.RemoveAll(n.Machine("m2").Into()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What goes to an agent is lost, and what it says is heard. The members that it fed go on at another agent, and
// no byte comes from both: nobody is served by two parents.
func TestC5OneWayCut(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc", Cables: map[string]link.Shape{"agent-b": {}}})
	p := n.Push(n.Object("model", 32<<20), "--rate", "8MB")
	stalls := n.WatchStalls(p)
	n.AwaitBytes(p, "m2", 4<<20)
	n.CutTo("agent-b")
	n.AwaitComplete(p)
	stalls.End()
	wantShortStalls(t, stalls, mostStall, "m2", "m3")
	n.Heal("agent-b")
	n.WantNothingTwice()
}

// Large packets to an agent vanish: signs of life get through, bytes do not.
func TestC15LargePacketsVanish(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc", Cables: map[string]link.Shape{"agent-b": {}}})
	p := n.Push(n.Object("model", 32<<20), "--rate", "8MB")
	n.AwaitBytes(p, "m2", 4<<20)
	stalls := n.WatchStalls(p)
	proof := n.Swallow("agent-b")
	n.AwaitComplete(p)
	stalls.End()
	wantShortStalls(t, stalls, mostOfTwoBlamed, "m1", "m2", "m3", "m4")
	if err := proof(); err != nil {
		t.Error(err)
	}
}

// Agents are cut off one after another, and come back in another order: nothing is lost meanwhile,
// and soon after everything is there.
func TestC18AgentsComeAndGo(t *testing.T) {
	t.Parallel()
	cables := map[string]link.Shape{"agent-a": {}, "agent-b": {}, "agent-c": {}}
	n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc", Cables: cables})
	for _, seed := range []uint64{1, 2, 3} {
		random := rand.New(rand.NewPCG(seed, 0))
		t.Logf("seed %d", seed)
		p := n.Push(n.Object("model-"+string(rune('0'+seed)), 16<<20), "--rate", "8MB")
		n.AwaitBytes(p, "m2", 1<<20)
		for _, act := range []func(string){n.Cut, n.Heal} {
			for _, agent := range random.Perm(3) {
				act("agent-" + string(rune('a'+agent)))
				<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond) // the fault's own pace
			}
		}
		healed := time.Now()
		n.AwaitComplete(p)
		if took := time.Since(healed); took > 30*time.Second {
			t.Errorf("complete %v after all was healed, want 30s at most", took)
		}
	}
}
