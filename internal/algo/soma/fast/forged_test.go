package fast_test

import (
	"math"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// nothing is a cable over which nothing arrives.
func nothing(int) cable { return cable{cut: true} }

// allIsWell says that all has come that was sent. What the root is, a liar makes up.
func allIsWell(_ int, poll wire.Polled, next uint64) wire.Reported {
	r := wire.Reported{Poll: poll.Poll, Seen: next, Received: next, Frontier: poll.Passed, Taken: 1}
	if poll.Root != [32]byte{} {
		r.State, r.Root = wire.Complete, [32]byte{9}
	}
	return r
}

// wantEnd wants the sender to have nothing left to do, and every member to be in one way.
func (n *network) wantEnd(outcome fast.Outcome, reason wire.Reason) {
	n.t.Helper()
	if d := n.sender.Next(n.now, 1); d.Do != fast.End {
		n.t.Errorf("the sender goes on with %+v: %+v", d, n.sender.Counts())
	}
	for _, m := range n.members {
		if got := n.sender.Member(m.id); got.Outcome != outcome || got.Reason != reason {
			n.t.Errorf("member %d is %v, %v", m.id, got.Outcome, got.Reason)
		}
	}
}

// The ceiling holds, second by second, where all feedback is forged: all packets are lost and all members say that all is well, also
// such that claim to have answered before they were asked. It ends, and nobody is complete whose root is not the source's.
func TestCeilingHoldsWhereAllLie(t *testing.T) {
	const ceiling = 1e6
	for name, lie := range map[string]forge{
		"all is well": allIsWell,
		"and at once": func(member int, poll wire.Polled, next uint64) wire.Reported {
			r := allIsWell(member, poll, next)
			r.Held = time.Hour
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := begin(t, setting{
				length: 5e6, members: 3, cable: nothing, seed: 21, isUnsealed: true, forge: lie,
				change: func(s *fast.Settings) { s.Ceiling = ceiling },
			})
			for range 8 {
				before := n.sender.Counts().Packets
				n.run(time.Second)
				if bytes := float64(n.sender.Counts().Packets-before) * 1500; bytes > 1.02*ceiling+1e4 {
					t.Errorf("%.0f bytes were sent in a second: %+v", bytes, n.sender.Counts())
				}
			}
			if n.sender.Passed() != n.shape.Blocks() {
				t.Errorf("%d of %d blocks were sent: the liars have held it up", n.sender.Passed(), n.shape.Blocks())
			}
			n.sender.Seal(n.root)
			n.act()
			n.run(time.Second)
			n.wantEnd(fast.Failed, wire.Damaged)
		})
	}
}

// Where all reports are lost from a moment on, no more is sent than may be on its way, and after the patience all members
// are unknown.
func TestLostReportsStopTheSender(t *testing.T) {
	n := begin(t, setting{length: 100e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 22})
	n.run(300 * time.Millisecond)
	n.isDeaf = true
	n.run(time.Millisecond) // what was said before is heard
	before, window := n.sender.Counts(), uint64(n.sender.Window())
	if before.Packets == 0 {
		t.Fatal("nothing was sent")
	}
	n.run(9 * time.Second)
	c := n.sender.Counts()
	t.Logf("%d packets and %d polls after that, with a window of %d", c.Packets-c.Polls-before.Packets+before.Polls, c.Polls-before.Polls, window)
	if packets := c.Packets - c.Polls - before.Packets + before.Polls; packets > window {
		t.Errorf("nobody answers, and %d packets were sent, with a window of %d", packets, window)
	}
	if polls := c.Polls - before.Polls; polls > 60 {
		t.Errorf("nobody answers, and was asked %d times", polls)
	}
	n.run(2 * time.Second)
	n.wantEnd(fast.Unknown, wire.NoReason)
}

// RFC 8084: where all say that nothing comes, the breaker trips, for longer each time, and after 10 s they are given up.
func TestBreakerTripsWhereAllSayThatNothingComes(t *testing.T) {
	n := begin(t, setting{
		length: 100e6, members: 3, cable: nothing, seed: 23,
		forge: func(_ int, poll wire.Polled, next uint64) wire.Reported {
			return wire.Reported{Poll: poll.Poll, Seen: next, Taken: 1, Wants: []wire.Want{{Run: math.MaxUint16}}}
		},
	})
	var perSecond []uint64
	for range 8 {
		before := n.sender.Counts().Packets
		n.run(time.Second)
		perSecond = append(perSecond, n.sender.Counts().Packets-before)
	}
	c := n.sender.Counts()
	t.Logf("%v packets in each second, %+v", perSecond, c)
	if c.Trips < 2 {
		t.Errorf("the breaker tripped %d times", c.Trips)
	}
	n.run(20 * time.Second)
	n.wantEnd(fast.Unknown, wire.NoReason)
}

// One that tells by turns that all has come and that nothing has does not keep the breaker closed where nothing comes to the others:
// what it says counts for what was sent since it spoke last, and no more than once.
func TestBreakerTripsWhateverOneTells(t *testing.T) {
	n := begin(t, setting{
		length: 100e6, members: 4, cable: nothing, seed: 23,
		forge: func(member int, poll wire.Polled, next uint64) wire.Reported {
			r := wire.Reported{Poll: poll.Poll, Seen: next, Taken: 1, Wants: []wire.Want{{Run: math.MaxUint16}}}
			if member == 0 && poll.Poll%2 == 0 {
				r.Received = next
			}
			return r
		},
	})
	n.run(8 * time.Second)
	if c := n.sender.Counts(); c.Trips < 2 || c.Reports == 0 {
		t.Errorf("nothing comes to three of four, and the breaker tripped %d times: %+v", c.Trips, c)
	}
}

// again asks for everything, and says that what came was of use.
func again(_ int, poll wire.Polled, next uint64) wire.Reported {
	return wire.Reported{
		Poll: poll.Poll, Seen: next, Received: next, Taken: uint16(1 + poll.Poll%math.MaxUint16), Wants: []wire.Want{{Run: math.MaxUint16}},
	}
}

// C42: members that all ask for everything, again and again, are sent it sixteen times at most.
func TestAllAskForEverythingForEver(t *testing.T) {
	n := begin(t, setting{length: 2e6, members: 4, uplink: cable{}, cable: nothing, seed: 24, forge: again, change: func(s *fast.Settings) { s.Ceiling = mbit100 }})
	n.run(2 * time.Minute)
	n.wantEnd(fast.Unknown, wire.NoReason)
	n.wantSentAtMost(17)
}

// wantSentAtMost wants no more packets to have been sent than the object has, and some blocks, so many times.
func (n *network) wantSentAtMost(times uint64) {
	n.t.Helper()
	c := n.sender.Counts()
	n.t.Logf("%+v", c)
	if most := times * wire.PacketsPerBlock * (uint64(n.shape.Blocks()) + wire.PacketsPerBlock); c.Packets > most {
		n.t.Errorf("%d packets were sent, want %d at most", c.Packets, most)
	}
}

// C42: where one of two is silent now and then, which has the other be served anew, each is sent it so often at most.
func TestLiarsTakeTurns(t *testing.T) {
	n := begin(t, setting{
		length: 2e6, members: 2, uplink: cable{}, cable: nothing, seed: 25, change: func(s *fast.Settings) { s.Ceiling = mbit100 },
		forge: func(member int, poll wire.Polled, next uint64) wire.Reported {
			if member == 0 {
				return again(0, poll, next)
			}
			r := again(1, poll, next)
			r.Wants = nil
			if poll.Poll%256 < 128 {
				r.Poll += 10 // which is a lie, and counts as silence
			}
			return r
		},
	})
	n.run(5 * time.Minute)
	n.wantEnd(fast.Unknown, wire.NoReason)
	n.wantSentAtMost(2 * 17)
}

// What is reported of the future counts for nothing: a member that says nothing else is as one that is silent.
func TestReportsOfTheFutureCountAsSilence(t *testing.T) {
	for name, ahead := range map[string]func(*wire.Reported){
		"a poll to come":           func(r *wire.Reported) { r.Poll += 10 },
		"numbers to come":          func(r *wire.Reported) { r.Seen += 1000 },
		"more than was sent":       func(r *wire.Reported) { r.Received += 1000 },
		"a block that there isn't": func(r *wire.Reported) { r.Frontier = 1 << 30 },
		"it has landed":            func(r *wire.Reported) { r.State = wire.Landed },
	} {
		t.Run(name, func(t *testing.T) {
			n := begin(t, setting{length: 100e6, members: 2, uplink: cable{}, cable: nothing, seed: 26, forge: func(member int, poll wire.Polled, next uint64) wire.Reported {
				r := allIsWell(member, poll, next)
				r.State, r.Root = wire.Receiving, [32]byte{}
				ahead(&r)
				return r
			}})
			n.run(12 * time.Second)
			n.wantEnd(fast.Unknown, wire.NoReason)
			if c := n.sender.Counts(); n.lies == 0 || c.Reports > 0 || c.Packets-c.Polls > 64 {
				t.Errorf("%d were refused; %+v", n.lies, c)
			}
		})
	}
}

// C47: members that join one after the other and never answer are waited for together, for one patience after the others have
// everything; one that answers is served meanwhile, and one that joins when it is over, too.
func TestStrangersAreWaitedForTogether(t *testing.T) {
	n := begin(t, setting{length: 10e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 27})
	late := func() *node { return n.join(&cable{rate: mbit100, queue: 200, delay: 100 * time.Microsecond}) }
	const every = 300 * time.Millisecond
	for i := range 200 {
		n.at(n.begun.Add(time.Duration(i)*every), func() { late().isDead = true })
	}
	n.run(9 * time.Second)
	one := late()
	n.run(2 * time.Second)
	n.wantComplete(0, 1, 2, one.id)
	if d := n.sender.Next(n.now, 1); d.Do == fast.End {
		t.Error("it waits for none of those that join")
	}
	n.run(9 * time.Second) // one patience after the late one has all
	if d := n.sender.Next(n.now, 1); d.Do != fast.End {
		t.Errorf("after %v it still waits for those that join", n.now.Sub(n.begun))
	}
	again := late()
	n.act()
	n.run(time.Second)
	n.wantComplete(again.id)
}

// C42: one member of four takes everything, asks for nothing, and says that nothing comes to it. The others have everything about as early
// as without it.
func TestWhoSaysThatAllIsLostSlowsNobody(t *testing.T) {
	for name, slow := range map[string]fast.Slow{"pace": fast.Pace, "detach": fast.Detach} {
		t.Run(name, func(t *testing.T) {
			took := func(tamper func(*wire.Reported)) (last time.Duration) {
				n := begin(t, setting{length: 200e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 25, change: func(s *fast.Settings) { s.Slow = slow }})
				n.tamper = tamper
				n.run(10 * time.Minute)
				n.wantComplete(1, 2, 3)
				for _, m := range n.members[1:] {
					last = max(last, m.finished.Sub(n.begun))
				}
				return last
			}
			calm := took(nil)
			if beside := took(func(r *wire.Reported) { r.Received = 0 }); beside > calm*5/4 {
				t.Errorf("the others have everything after %v, and after %v without it", beside, calm)
			}
		})
	}
}
