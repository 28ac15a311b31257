package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
)

// One that needs minutes until all is on disk is not given up, however many others there were, and are gone.
func TestWhoSettlesIsWaitedFor(t *testing.T) {
	n := begin(t, setting{length: 1e6, members: 500, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 21, change: patient})
	slow := n.members[0]
	slow.settles = 3 * time.Minute
	for range 190 {
		n.run(time.Second)
		if got := n.sender.Member(slow.id); got.Outcome == fast.Unknown {
			t.Fatalf("after %v it is given up: %+v, %+v", n.now.Sub(n.begun), got, n.sender.Counts())
		}
	}
	n.wantComplete()
}

// The same of one whose neighbours died all at once, and of many that are asked seldom: while the source is hashed, or
// where a low ceiling leaves little room for polls.
func TestAllOfManyAreHeard(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		with    func(*setting)
		then    func(*network)
	}{
		"hashing": {members: 900, with: func(s *setting) {
			s.isUnsealed, s.have = true, func(int) uint32 { return whole }
			s.change = func(set *fast.Settings) { patient(set); set.Hold = true }
		}},
		"a low ceiling": {members: 900, with: func(s *setting) {
			s.change = func(set *fast.Settings) { patient(set); set.Ceiling = 1e5 }
		}},
		"others died": {members: 300, with: func(s *setting) { s.length = 600e6 }, then: func(n *network) {
			for _, m := range n.members[1:] {
				m.isDead = true
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			with := setting{length: 6e6, members: c.members, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 22, change: patient}
			c.with(&with)
			n := begin(t, with)
			n.run(time.Second)
			if c.then != nil {
				c.then(n)
			}
			for range 60 {
				n.run(time.Second)
				for _, m := range n.members {
					if got := n.sender.Member(m.id); got.Outcome == fast.Unknown && !m.isDead {
						t.Fatalf("after %v member %d is given up: %+v, %+v", n.now.Sub(n.begun), m.id, got, n.sender.Counts())
					}
				}
			}
		})
	}
}

func patient(s *fast.Settings) { s.Patience = 30 * time.Second }

// Half of many that die, or are cut off, at once hold up the others for less than 1.5 s; those that are back in time get everything.
func TestManyThatAreCutOffAtOnceHoldUpNobody(t *testing.T) {
	for _, members := range []int{9, 60} {
		n := begin(t, setting{length: 60e6, members: members, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 23, change: patient})
		n.run(time.Second)
		away := n.members[members/2:]
		for _, m := range away {
			m.cable.cut = true
		}
		worst, still, before := 0, 0, 0
		for range 250 {
			n.run(20 * time.Millisecond)
			if still++; len(n.members[0].have) > before {
				still, before = 0, len(n.members[0].have)
			}
			worst = max(worst, still)
		}
		if stall := time.Duration(worst) * 20 * time.Millisecond; stall > 1500*time.Millisecond {
			t.Errorf("of %d members the others stand for %v", members, stall)
		}
		n.run(14 * time.Second)
		for _, m := range away {
			m.cable.cut = false
		}
		n.run(time.Minute)
		n.wantComplete()
	}
}
