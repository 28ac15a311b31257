package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// Members that come late have the head long before the others have everything: until then they have no place for the rest. They hold up
// nobody by that, and are sent it once.
func TestHeadIsSentAgainAtOnce(t *testing.T) {
	const head = 100
	n := begin(t, setting{length: 60e6, members: 2, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 17, change: func(s *fast.Settings) { s.Head = head }})
	n.run(2 * time.Second)
	for range 2 {
		down := lan(mbit100)(0)
		n.join(&down)
	}
	missed := int(n.sender.Passed()) * wire.PacketsPerBlock
	n.run(1500 * time.Millisecond)
	if n.sender.Passed() == n.shape.Blocks() {
		t.Fatal("the others have everything")
	}
	for _, late := range n.members[2:] {
		if got := n.sender.Member(late.id); got.Blocks < head || got.Detached {
			t.Errorf("late member %d: %+v", late.id, got)
		}
	}
	n.run(time.Minute)
	n.wantComplete()
	for _, m := range n.members[:2] {
		if took := m.finished.Sub(n.begun); took > 7*time.Second {
			t.Errorf("member %d had everything after %v", m.id, took)
		}
	}
	if n.repairs > missed*5/4 {
		t.Errorf("a late one missed %d packets, and %d were sent again", missed, n.repairs)
	}
}

// A member that comes late takes what is sent from then on, and has what it loses of that be repaired, like all others: at the end it
// misses no more than what was sent before it came, however many blocks it may hold open meanwhile.
func TestWhoComesLateTakesTheRest(t *testing.T) {
	const mbit1000 = 1.25e8
	for name, with := range map[string]struct {
		rate   float64
		length uint64
		before uint32
	}{
		"it asks for more than all others":         {mbit100, 400e6, 350},
		"it misses more than is asked for at once": {mbit1000, 800e6, 4500},
	} {
		t.Run(name, func(t *testing.T) {
			lossy := func(int) cable { return cable{rate: with.rate, queue: 200, delay: 100 * time.Microsecond, loss: 0.01} }
			n := begin(t, setting{length: with.length, members: 2, uplink: cable{rate: with.rate, queue: 200}, cable: lossy, seed: 19})
			for n.sender.Passed() < with.before {
				n.run(100 * time.Millisecond)
			}
			down := lossy(0)
			late := n.join(&down)
			late.r = fast.NewReceiver(n.shape, 0, 128)
			late.r.Welcome(late.id)
			missed, all := int(n.sender.Passed())*wire.PacketsPerBlock, int(n.shape.Blocks())*wire.PacketsPerBlock
			for range 60 {
				n.run(time.Second)
				if got := n.sender.Member(late.id); got.Outcome == fast.Unknown {
					t.Fatalf("after %v the late one counts as %+v", n.now.Sub(n.begun), got)
				}
			}
			n.wantComplete()
			if most := missed*11/10 + all/20; n.repairs > most {
				t.Errorf("the late one missed %d packets, and %d of %d were sent again", missed, n.repairs, all)
			}
		})
	}
}

// A member that asks for the head for ever, as one to which nothing gets does, is not sent it more than a few times before the others have
// everything.
func TestHeadIsNotSentForEver(t *testing.T) {
	const head = 20
	n := begin(t, setting{length: 60e6, members: 2, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 18, change: func(s *fast.Settings) { s.Head = head }})
	n.run(time.Second)
	n.tamper = func(r *wire.Reported) { r.Wants = []wire.Want{{Block: 0, Run: head}} }
	n.run(3 * time.Second)
	if most := 3 * head * wire.PacketsPerBlock; n.sender.Passed() == n.shape.Blocks() || n.repairs < most/2 || n.repairs > most {
		t.Errorf("%d packets were sent again", n.repairs)
	}
	n.run(time.Minute)
	n.wantComplete()
}

// A member that comes late and has all is sent the root alone where those that the blocks are sent to end before they have all: the source
// is hashed for it, quietly. Who comes after that is sent all, and who is back only the rest.
func TestRootIsSentToWhoIsLeft(t *testing.T) {
	for name, ends := range map[string]func(n *network, m *node){
		"one is full": func(n *network, m *node) { m.r.Enter(wire.Failed, wire.NoRoom, [32]byte{}, n.now); m.look(n) },
		"one leaves":  func(n *network, m *node) { m.isDead = true; n.sender.Leave(m.id) },
		"one is cut":  func(_ *network, m *node) { m.cable.cut = true },
	} {
		t.Run(name, func(t *testing.T) {
			n := begin(t, setting{length: 60e6, members: 1, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 16, isUnsealed: true})
			n.lingers = true
			n.run(time.Second)
			down, later := lan(mbit100)(0), lan(mbit100)(0)
			late := n.join(&down)
			late.has(n, n.shape.Blocks())
			n.run(time.Second)
			if n.sender.Holds() {
				t.Error("it waits while somebody misses something")
			}
			ends(n, n.members[0])
			n.run(5 * time.Second)
			began, before := n.sender.Passed(), n.sender.Counts()
			n.run(time.Minute)
			if _, sends := n.sender.Upcoming(); sends || !n.sender.Holds() || n.sender.Passed() != began || n.sender.Counts().Polls-before.Polls > 2000 {
				t.Fatalf("it does not wait for the root: %d of %d blocks, %+v", n.sender.Passed(), n.shape.Blocks(), n.sender.Counts())
			}
			n.sender.Seal(n.root)
			n.act()
			n.run(time.Second)
			n.wantComplete(late.id)
			if n.sender.Holds() || n.sender.Passed() != began {
				t.Errorf("%d blocks were sent, %d before", n.sender.Passed(), began)
			}
			n.join(&later)
			n.members[0].cable.cut = false
			n.act()
			n.run(time.Minute)
			n.wantComplete(2)
			if name == "one is cut" {
				n.wantComplete()
			}
		})
	}
}
