package faults_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab/link"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// smallCache makes agents hold less than what is delivered.
var smallCache = map[string][]string{"agent-a": {"--cache-bytes=4MiB"}, "agent-b": {"--cache-bytes=4MiB"}}

const size = 16 << 20

func slowMember(t *testing.T) *faults.Net {
	return faults.Start(t, faults.Topology{Agents: 2, Members: "abb", Flags: smallCache, Cables: map[string]link.Shape{"m2": {}}})
}

// One of 16 members has 1 Mbit/s: what happens to it, and to the others, is what the policy says.
func TestC7OneSlowOfSixteen(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "a" + strings.Repeat("b", 15), Flags: smallCache, Cables: map[string]link.Shape{"m2": {}}})
	othersHave := func(p *faults.Push, bytes int64) (all bool) {
		all = true
		for _, m := range n.Members {
			all = all && (m.Name() == "m2" || n.Received(m, p.Object) >= bytes)
		}
		return all
	}
	slowHas := func(p *faults.Push) int64 { return n.Received(n.Machine("m2"), p.Object) }

	n.Throttle("m2", link.Mbit)
	p := n.Push(n.Object("paced", size), "--mode", "end-to-end", "--slow", "pace")
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if ahead := n.Received(n.Machine("m3"), p.Object) - slowHas(p); ahead > buffered {
			t.Fatalf("another is %d bytes ahead of the slowest: what is buffered for it is %d", ahead, buffered)
		}
	}
	n.Throttle("m2", 0)
	n.AwaitComplete(p)

	n.Throttle("m2", link.Mbit)
	p = n.Push(n.Object("detached", size), "--slow", "detach")
	n.AwaitWithin(10*time.Second, "the others have all", func() bool { return othersHave(p, size) })
	if has := slowHas(p); has > size/2 {
		t.Errorf("the slow one has %d bytes already: nothing was shown", has)
	}
	n.Throttle("m2", 0)
	n.AwaitComplete(p)

	n.Throttle("m2", link.Mbit)
	p = n.Push(n.Object("evicted", size), "--slow", "evict", "--slow-lag", "3MB", "--rate", "3MB")
	n.WantOutcomes(n.AwaitEnd(p), p, map[string]string{"m2": "slow"})
}

// buffered is how far another member can be ahead of the slowest: by what their agent's cache holds, and what is
// under way to that member.
const buffered = 4<<20 + 6<<20

// Pace: the others go as fast as the slowest, however small the caches are.
func TestC7PaceWaitsForTheSlowest(t *testing.T) {
	n := slowMember(t)
	n.Throttle("m2", 32*link.Mbit)
	p := n.Push(n.Object("model", size), "--mode", "end-to-end", "--slow", "pace")
	n.AwaitBytes(p, "m3", size)
	if has := n.Received(n.Machine("m2"), p.Object); has < size-8<<20-4<<20 {
		t.Errorf("the slowest has %d of %d bytes when another has all: what two caches hold is 8 MiB", has, size)
	}
	n.AwaitComplete(p)
}

// Pace has a floor: a member below it is given up.
func TestC7PaceHasAFloor(t *testing.T) {
	n := slowMember(t)
	n.Throttle("m2", link.Mbit)
	p := n.Push(n.Object("model", size), "--mode", "end-to-end", "--slow", "pace", "--slow-floor", "500KB")
	d := n.AwaitEnd(p)
	n.WantOutcomes(d, p, map[string]string{"m2": "slow"})
}

// Detach: the others have everything before the slow one, which gets everything in the end.
func TestC7DetachGoesOnWithout(t *testing.T) {
	t.Parallel()
	n := slowMember(t)
	n.Throttle("m2", 4*link.Mbit)
	p := n.Push(n.Object("model", size), "--slow", "detach")
	n.AwaitWithin(8*time.Second, "the others have all", func() bool {
		return n.Received(n.Machine("m1"), p.Object) == size && n.Received(n.Machine("m3"), p.Object) == size
	})
	if has := n.Received(n.Machine("m2"), p.Object); has > size/2 {
		t.Errorf("the slow one has %d bytes already: nothing was shown", has)
	}
	n.Throttle("m2", 0)
	n.AwaitComplete(p)
}

// Evict: a member that lags too far is told that it is given up, and the others have everything.
func TestC7EvictGivesUp(t *testing.T) {
	t.Parallel()
	n := slowMember(t)
	n.Throttle("m2", link.Mbit)
	p := n.Push(n.Object("model", size), "--slow", "evict", "--slow-lag", "3MB", "--rate", "3MB")
	d := n.AwaitEnd(p)
	n.WantOutcomes(d, p, map[string]string{"m2": "slow"})
	// When the same object is pushed again, the member goes on from where it was given up.
	n.Throttle("m2", 0)
	n.AwaitComplete(n.Push(p.Object))
}

// Evict: a member that hangs, and says nothing at all any more, is given up like one that is merely slow.
func TestC6EvictGivesUpWhoHangs(t *testing.T) {
	t.Parallel()
	n := slowMember(t)
	p := n.Push(n.Object("model", size), "--slow", "evict", "--slow-lag-time", "3s", "--rate", "4MB")
	n.AwaitBytes(p, "m2", 2<<20)
	frozen := time.Now()
	n.Freeze("m2")
	d := n.AwaitEnd(p)
	if took := time.Since(frozen); took > 30*time.Second {
		t.Errorf("the delivery ended %v after a member began to hang", took)
	}
	n.WantOutcomes(d, p, map[string]string{"m2": "slow"})
	n.Thaw("m2")
}

// A member that stops reading while its TCP lives, for longer than its lease: whatever the policy, the others have all before it
// goes on, and it has all soon after. With pace they wait for it as long as it is one of them, otherwise for a moment.
func TestC6MemberStopsReading(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	for name, c := range map[string]struct {
		flags []string
		most  time.Duration // the longest time for which the others may get nothing
	}{
		"detach": {[]string{"--slow", "detach"}, mostStall},
		"pace":   {[]string{"--mode", "end-to-end", "--slow", "pace"}, lease + mostStall},
	} {
		t.Run(name, func(t *testing.T) {
			n := slowMember(t)
			p := n.Push(n.Object("model", size), append(c.flags, "--rate", "16MB")...)
			n.AwaitBytes(p, "m2", 2<<20)
			stalls := n.WatchStalls(p)
			n.Freeze("m2")
			n.AwaitWithin(20*time.Second, "the others have all", func() bool {
				return n.Received(n.Machine("m1"), p.Object) == size && n.Received(n.Machine("m3"), p.Object) == size
			})
			for _, other := range []string{"m1", "m3"} {
				if stall := stalls.Of(other); stall > c.most {
					t.Errorf("%s got nothing for %v beside one that hangs, want %v at most", other, stall, c.most)
				}
			}
			stalls.End()
			n.Await("its lease is over", func() bool { return n.Receipt(p, "m2").GetState() == groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN })
			n.Thaw("m2")
			n.AwaitComplete(p)
		})
	}
}

// A member that is killed goes on from what was known to be synced; its journal claims that every 5 s.
func TestKilledMemberGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	n := slowMember(t)
	p := n.Push(n.Object("model", size), "--rate", "1MB")
	n.AwaitBytes(p, "m2", size-size/8) // nearly everything: what a claim that is 5 s old lacks of it is about half
	n.Kill("m2")
	carried := n.Carried("m2")
	n.Restart("m2")
	n.AwaitComplete(p)
	again := n.Carried("m2") - carried
	t.Logf("killed with %d bytes, it was sent %d more of %d", size-size/8, again, size)
	if again > size*5/8 {
		t.Errorf("it was sent %d bytes more of %d: it has not gone on where it was", again, size)
	}
}

// With a cache of 4 MiB, an object many times as large, a child that stalls, and a control group of 64 MiB, the cache's files
// among them, the agent stays within both (E, goal 8).
func TestC8StalledChildBoundsMemory(t *testing.T) {
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb", Flags: smallCache})
	for _, agent := range []string{"agent-a", "agent-b"} {
		n.LimitMemory(agent, 64<<20)
	}
	p := n.Push(n.Object("model", 32*size), "--mode", "end-to-end", "--slow", "pace")
	n.AwaitBytes(p, "m2", size)
	n.Freeze("m2")
	<-time.After(3 * time.Second) // the fault lasts for this long
	n.Thaw("m2")
	for ended := false; !ended; time.Sleep(20 * time.Millisecond) {
		for _, agent := range []string{"agent-a", "agent-b"} {
			if held := n.Metric(agent, "groupcast_agent_cache_reserved_bytes"); held > 4<<20 {
				t.Fatalf("%s reserves %.0f bytes, its limit is 4 MiB", agent, held)
			}
		}
		ended = n.Received(n.Machine("m2"), p.Object) == p.Object.Size
	}
	n.AwaitComplete(p)
	for _, agent := range []string{"agent-a", "agent-b"} {
		wantLittleMemory(t, n, agent, 64<<20)
		if n.KilledForMemory(agent) {
			t.Errorf("%s was killed for the memory that it wanted", agent)
		}
	}
}

// An agent whose cache is in memory, and which gets less memory than it may cache, is killed by the kernel. The nodes
// that it fed go on elsewhere, as when it is killed in any other way.
func TestC8AgentIsKilledForMemory(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{
		Agents: 2, Members: "abb", Flags: map[string][]string{"agent-b": {"--cache-bytes=256MiB"}}, Disks: map[string]link.Bytes{"agent-b": 300 * link.MiB},
	})
	n.LimitMemory("agent-b", 96<<20)
	p := n.Push(n.Object("model", 12*size), "--mode", "hop", "--rate", "64MB")
	n.Await("the kernel has killed agent-b", func() bool { return n.KilledForMemory("agent-b") })
	n.AwaitComplete(p)
}

// A member that joins when all is over gets the object from the cache: the sender is gone.
func TestLateMemberIsFedFromTheCache(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "ab", Late: "b"})
	p := n.Push(n.Object("model", size))
	n.AwaitComplete(p)
	if err := n.AwaitExit(p); err != nil {
		t.Error(err)
	}
	n.Restart("m3")
	n.Await("the late member has it", func() bool { return n.Has("m3", p.Object) })
}

// A member that already has the object is COMPLETE without receiving a byte of it.
func TestMemberThatHasItGetsNoByte(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "ab"})
	object := n.Object("model", size)
	n.AwaitComplete(n.Push(object))
	before := n.Carried("m2")
	n.AwaitComplete(n.Push(object))
	if came := n.Carried("m2") - before; came > size/50 {
		t.Errorf("%d bytes came to a member that has all", came)
	}
}

// A member that already has the object needs nothing, so nobody waits for its acknowledgements.
func TestMemberThatHasItHoldsUpNobody(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb"})
	object := n.Object("model", 3*size)
	n.AwaitComplete(n.Push(object))
	if err := os.Remove(filepath.Join(n.Machine("m1").Into(), object.Name)); err != nil {
		t.Fatal(err)
	}
	n.AwaitComplete(n.Push(object, "--mode", "end-to-end"))
}

// A member's disk is slow: with pace the others wait for it, with detach they do not. What it cannot write yet is in
// bounded buffers at the agent and at the member.
func TestC53SlowDiskAtAMember(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb", Flags: smallCache, SlowDisks: []string{"m2"}})
	lead := func(p *faults.Push) int64 {
		return n.Received(n.Machine("m3"), p.Object) - n.Received(n.Machine("m2"), p.Object)
	}

	n.SlowDisk("m2", 8*link.Mbit)
	p := n.Push(n.Object("paced", 2*size), "--mode", "end-to-end", "--slow", "pace")
	n.AwaitBytes(p, "m3", 2<<20)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if ahead := lead(p); ahead > buffered {
			t.Fatalf("another is %d bytes ahead of the slow one: what is buffered for it is %d", ahead, buffered)
		}
	}
	n.SlowDisk("m2", 0)
	n.AwaitComplete(p)

	n.SlowDisk("m2", 8*link.Mbit)
	p = n.Push(n.Object("detached", 2*size), "--slow", "detach")
	n.AwaitBytes(p, "m1", 2*size)
	n.AwaitBytes(p, "m3", 2*size)
	if has := n.Received(n.Machine("m2"), p.Object); has > size { // the other has everything, and may just be renaming it
		t.Errorf("the slow one has %d bytes already: nothing was shown", has)
	}
	n.SlowDisk("m2", 0)
	n.AwaitComplete(p)
	wantLittleMemory(t, n, "agent-b", 4<<20+64<<20)
	wantLittleMemory(t, n, "m2", 64<<20)
}

func wantLittleMemory(t *testing.T, n *faults.Net, name string, most int64) {
	t.Helper()
	peak := n.Machine(name).PeakMemory(t)
	t.Logf("%s used %d MiB at most", name, peak>>20)
	if peak > most {
		t.Errorf("%s used %d bytes of memory, want %d at most", name, peak, most)
	}
}

// A disk is too small, and another fills up: FAILED(no_room) at that member, and nothing is left
// there; the others get everything.
func TestC48NoRoomAtAMember(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb", Disks: map[string]link.Bytes{"m2": 8 * link.MiB, "m3": 64 * link.MiB}})
	p := n.Push(n.Object("model", size), "--rate", "8MB")
	n.AwaitBytes(p, "m3", 3<<20)
	n.FillDisk("m3")
	n.WantOutcomes(n.AwaitEnd(p), p, map[string]string{"m2": "no_room", "m3": "no_room"})
	for _, name := range []string{"m2", "m3"} {
		if left := n.Partials(name); left > 0 {
			t.Errorf("%s keeps %d bytes in the way", name, left)
		}
	}
}

// An agent that has no disk space left for its cache is bypassed.
func TestC48NoRoomAtAnAgent(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc", Disks: map[string]link.Bytes{"agent-b": 8 * link.MiB}})
	n.AwaitComplete(n.Push(n.Object("model", 2*size), "--rate", "16MB"))
}

// So is an agent whose disk others have filled: it says so itself, and its log does once.
func TestC48DiskOfACacheIsFilled(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc", Disks: map[string]link.Bytes{"agent-b": 96 * link.MiB}})
	n.FillDisk("agent-b")
	p := n.Push(n.Object("model", 4*size), "--rate", "8MB")
	n.AwaitComplete(p)
	if changes := n.Delivery(p.ID).GetTreeChanges(); !slices.ContainsFunc(changes, func(c *groupv1.TreeChange) bool {
		return c.GetCause() == "agent_full" && strings.Contains(c.GetDetail(), "agent/agent-b")
	}) {
		t.Errorf("the tree changed for %v, want the full disk of agent-b among the causes", changes)
	}
	if said := n.Machine("agent-b").Process.Output(); strings.Count(said, "others have filled the disk of the cache") != 1 {
		t.Errorf("the agent does not say once that its disk is full:\n%s", said)
	}
}

// If the only agent's disk is filled by others, the agent gives back what all its members have, and goes on over
// its existing link.
func TestC48OnlyCacheGivesRoom(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 1, Members: "aaaa", Disks: map[string]link.Bytes{"agent-a": 40 * link.MiB}})
	// Less is left than the agent took the cache to have when it started. Whatever fills the disk later may take what is given back.
	if err := os.WriteFile(n.Machine("agent-a").Disk.Outside("ballast"), make([]byte, 30<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	p := n.Push(n.Object("model", 4*size), "--rate", "16MB")
	n.AwaitComplete(p)
	n.WantNothingTwice()
	if sent := n.SentBy("sender"); sent > 5*size {
		t.Errorf("the sender sent %d bytes for %d", sent, 4*size)
	}
}

// If there is nothing to give back, it takes a minute to end. The sender says why nothing moves, and meanwhile sends
// hardly anything again.
func TestC48OnlyCacheHasNoRoom(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 1, Members: "aa", Disks: map[string]link.Bytes{"agent-a": 40 * link.MiB}})
	n.FillDisk("agent-a")
	p := n.Push(n.Object("model", size))
	n.AwaitWithin(90*time.Second, "it fails", func() bool { return n.Delivery(p.ID).GetState() == groupv1.DeliveryState_DELIVERY_STATE_FAILED })
	n.WantOutcomes(n.Delivery(p.ID), p, n.All("no_room"))
	if sent := n.SentBy("sender"); sent > 2*size {
		t.Errorf("the sender sent %d bytes, for a disk that takes none", sent)
	}
	if said := p.Process.Output(); !strings.Contains(said, "the disk of its cache is full") {
		t.Errorf("the push does not say why nothing is sent:\n%s", said)
	}
}

// What an agent has cached is changed behind its back. A member that is fed with it finds out, and takes all again from an agent
// whose members have the right bytes; the agent that is to blame is named.
func TestC12AgentDamagesWhatItFeeds(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 2, Members: "abb"})
	p := damaged(n)
	n.AwaitComplete(p)
	changes := n.Delivery(p.ID).GetTreeChanges()
	last := changes[len(changes)-1]
	t.Log(last.GetDetail())
	if last.GetCause() != "bytes_damaged" || !strings.HasSuffix(last.GetDetail(), "it got damaged bytes over agent/agent-b") {
		t.Errorf("the tree changed for %v, want what agent-b gave to be the last cause", changes)
	}
}

// Without another agent nobody becomes COMPLETE with it.
func TestC12NoOtherAgent(t *testing.T) {
	t.Parallel()
	n := faults.Start(t, faults.Topology{Agents: 1, Members: "aaa"})
	p := damaged(n)
	n.WantOutcomes(n.AwaitEnd(p), p, map[string]string{"m2": "damaged"})
}

// damaged pushes an object of which the last agent feeds m2 changed bytes.
func damaged(n *faults.Net) *faults.Push {
	p := n.Push(n.Object("model", size), "--rate", "4MB")
	n.AwaitBytes(p, "m1", 1<<20)
	n.Freeze("m2") // it will be fed what has been damaged
	n.AwaitBytes(p, "m3", 15<<20)
	n.DamageCache(n.Agents[len(n.Agents)-1].Name(), 14<<20) // beyond what is under way to it: buffers have 10 MiB
	n.Await("m1 has verified what it got", func() bool { return n.Receipt(p, "m1").GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE })
	n.Thaw("m2")
	return p
}
