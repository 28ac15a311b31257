package fast_test

import (
	"testing"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

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
