package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
)

// holding is a sender that hashes first, to members that say that they have so many blocks.
func holding(t *testing.T, have ...uint32) *network {
	t.Helper()
	return begin(t, setting{
		length: 6e6, members: len(have), uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 14,
		have: func(i int) uint32 { return have[i] }, change: func(s *fast.Settings) { s.Hold, s.First = true, least(have) },
	})
}

func least(have []uint32) (first uint32) {
	first = have[0]
	for _, one := range have {
		first = min(first, one)
	}
	return first
}

// whole is how many blocks 6e6 bytes have.
var whole = func() uint32 {
	shape, err := fast.ShapeOf(6e6, datagram)
	if err != nil {
		panic(err)
	}
	return shape.Blocks()
}()

// A member that has all is sent the root alone.
func TestWhoHasAllIsSentTheRoot(t *testing.T) {
	n := holding(t, whole, whole, whole)
	n.run(time.Minute)
	n.wantComplete()
	if c := n.sender.Counts(); c.Packets != c.Polls || n.sender.Passed() != n.sender.Began() {
		t.Errorf("%+v were sent, blocks %d to %d", c, n.sender.Began(), n.sender.Passed())
	}
}

// A member that has a part gets the rest, once, beside those that have all and those that have nothing.
func TestRestIsSentOnce(t *testing.T) {
	for _, have := range [][]uint32{{whole, 20}, {whole, 20, 30, whole}, {0, whole}} {
		n := holding(t, have...)
		n.run(time.Minute)
		n.wantComplete()
		if first := least(have); n.sender.Began() != first || n.repairs != 0 {
			t.Errorf("of %v, it began with block %d, and sent %d packets again", have, n.sender.Began(), n.repairs)
		}
	}
}

// A member that has something else joins again, and is waited for before anything is sent, but not for
// ever: the others go on without one that does not say.
func TestHoldEnds(t *testing.T) {
	n := holding(t, whole, 0)
	n.members[0].isDead = true // it was heard to join, and says no more
	n.sender.Leave(n.members[0].id)
	again := lan(mbit100)(0)
	n.join(&again)
	n.run(time.Minute)
	n.wantComplete(1, 2)
	if n.repairs != 0 || n.last() > 2*time.Second {
		t.Errorf("%d packets were sent again, after %v", n.repairs, n.last())
	}
	n = holding(t, whole, 0)
	n.members[0].isDead = true
	n.run(time.Minute)
	n.wantComplete(1)
	if took := n.last(); took > 8*time.Second {
		t.Errorf("one that does not say whether it has all held up the other for %v", took)
	}
}

// While the source is hashed, which may take long, members are asked now and then, and all of them count.
func TestHashingIsQuiet(t *testing.T) {
	n := begin(t, setting{
		length: 6e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 15, isUnsealed: true,
		have: func(i int) uint32 { return []uint32{whole, 0, 0}[i] }, change: func(s *fast.Settings) { s.Hold = true },
	})
	n.run(40 * time.Second)
	if c := n.sender.Counts(); c.Packets != c.Polls || c.Polls > 1000 || n.acks > 3300 {
		t.Errorf("in 40 s, %+v were sent, and %d answers", c, n.acks)
	}
	n.sender.Seal(n.root)
	n.act()
	n.run(time.Minute)
	n.wantComplete()
	if n.repairs != 0 {
		t.Errorf("%d packets were sent again", n.repairs)
	}
}
