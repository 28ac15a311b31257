package fast_test

import (
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// These are of objects, rates and LANs so large that what a member may hold, or ask for at once, is far less than what it may miss.

const mbit1000 = 1.25e8

// A member that has no room for more blocks asks for the rest of those that it holds, and for no others: they would be sent in vain. That
// packets of these get to it, it tells all the same, so that it is not taken for one that nothing gets to.
func TestWhoHasNoRoomAsksForWhatItHolds(t *testing.T) {
	const most, sent = 16, 100
	shape, err := fast.ShapeOf(30e6, datagram)
	if err != nil {
		t.Fatal(err)
	}
	r, now := fast.NewReceiver(shape, 0, most), time.Unix(1e9, 0)
	r.Welcome(0)
	poll := uint32(0)
	report := func() wire.Reported {
		t.Helper()
		poll++
		now = now.Add(time.Second)
		r.Polled(wire.Polled{Poll: poll, Passed: sent, Members: 1, Every: 1}, uint64(poll), now)
		now = now.Add(time.Second)
		said, ok := r.Report(now)
		if !ok {
			t.Fatal("it says nothing")
		}
		return said
	}
	isRun := func(w wire.Want) bool { return w.Run > 0 }
	if said := report(); !slices.ContainsFunc(said.Wants, isRun) {
		t.Errorf("with room for all it asks for %+v", said.Wants)
	}
	for block := range uint32(most) {
		r.Took(block, 0)
	}
	full := report()
	if len(full.Wants) != most || slices.ContainsFunc(full.Wants, isRun) {
		t.Errorf("with no room it asks for %+v", full.Wants)
	}
	if r.Wants(most, 0) {
		t.Fatal("it wants a block that it has no room for")
	}
	r.Refused(0) // of that one it has a part
	if said := report(); said.Taken != full.Taken {
		t.Error("a packet that came twice counts")
	}
	r.Refused(most)
	if said := report(); said.Taken == full.Taken {
		t.Error("a packet for which there is no room does not count")
	}
}

// One of many members loses packets, and the others none: it asks for all of them in time, although the questions of all are spread.
func TestOneOfManyAsksForAllThatItLoses(t *testing.T) {
	downs := func(i int) cable {
		return cable{rate: mbit1000, queue: 400, delay: 2 * time.Millisecond, loss: []float64{0.01, 0}[min(i, 1)]}
	}
	n := begin(t, setting{length: 300e6, members: 64, uplink: cable{rate: mbit1000, queue: 400}, cable: downs, seed: 22})
	n.run(time.Minute)
	n.wantComplete()
	if n.repairs > 3*n.lost {
		t.Errorf("%d packets were lost, and %d sent again", n.lost, n.repairs)
	}
}

// A gap of whole blocks is closed soon also where many blocks are sent until somebody can ask for them: else all that comes after it would
// have to be kept, and read again at the end.
func TestGapsAreClosedSoon(t *testing.T) {
	n := begin(t, setting{length: 300e6, members: 3, uplink: cable{rate: mbit1000, queue: 400}, cable: lan(mbit1000), seed: 23})
	n.run(300 * time.Millisecond)
	for range 3 {
		n.members[1].cable.cut = true
		n.run(2 * time.Millisecond)
		n.members[1].cable.cut = false
		n.run(200 * time.Millisecond)
		if behind := n.sender.Passed() - n.members[1].r.Frontier(); n.sender.Passed() == n.shape.Blocks() || behind > 2*wire.PacketsPerBlock {
			t.Errorf("%d blocks behind, with %d of %d sent", behind, n.sender.Passed(), n.shape.Blocks())
		}
	}
	n.run(time.Minute)
	n.wantComplete()
}

// With detach, a member whose disk takes a sixth of what the network brings is served last, although packets wait nowhere on their way.
func TestSlowDiskIsDetached(t *testing.T) {
	n := begin(t, setting{length: 300e6, members: 3, uplink: cable{rate: mbit1000, queue: 400}, cable: lan(mbit1000), seed: 24, change: func(s *fast.Settings) { s.Slow = fast.Detach }})
	n.members[2].disk = 20e6
	n.run(time.Minute)
	n.wantComplete()
	for _, m := range n.members[:2] {
		if took := m.finished.Sub(n.begun); took > 5*time.Second {
			t.Errorf("member %d had everything after %v", m.id, took)
		}
	}
}

// A member that has lost the word for many blocks of zeros is told again at once, by one datagram, and is detached for that as little as one
// that has just come, and can wait for what was sent before.
func TestNobodyIsDetachedForWhatIsTold(t *testing.T) {
	const hole, between = 60, 20 // blocks
	zeros := func(s *fast.Settings) {
		for first := uint32(between); first+hole < s.Blocks(); first += hole + between {
			s.Zeros = append(s.Zeros, fast.Extent{First: first, End: first + hole})
		}
	}
	for _, rate := range []float64{mbit100, mbit1000} {
		lossy := func(int) cable { return cable{rate: rate, queue: 400, delay: 100 * time.Microsecond, loss: 0.02} }
		n := begin(t, setting{length: 2e9, members: 3, uplink: cable{rate: rate, queue: 400}, cable: lossy, seed: 26, change: zeros})
		n.run(time.Second)
		down := lossy(0)
		n.join(&down)
		for range 1000 {
			n.run(100 * time.Millisecond)
			for _, m := range n.members[:3] {
				if n.sender.Member(m.id).Detached {
					t.Fatalf("at %.0f Mbit/s member %d is detached", rate*8e-6, m.id)
				}
			}
		}
		n.wantComplete()
	}
}

// One that has just come is not sent at once what was sent before it came, and is not detached for asking.
func TestWhoJustCameCanWait(t *testing.T) {
	n := begin(t, setting{length: 300e6, members: 2, uplink: cable{rate: mbit1000, queue: 400}, cable: lan(mbit1000), seed: 27})
	n.run(500 * time.Millisecond)
	down := lan(mbit1000)(0)
	late, before := n.join(&down), n.repairs
	n.run(500 * time.Millisecond)
	if got := n.sender.Member(late.id); got.Detached || n.repairs > before+1000 || n.sender.Passed() == n.shape.Blocks() {
		t.Errorf("%d packets were sent again at once, with %d of %d blocks sent; %+v", n.repairs-before, n.sender.Passed(), n.shape.Blocks(), got)
	}
	n.run(time.Minute)
	n.wantComplete()
}
