package fast_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	mbit100 = 12.5e6
	mbit2   = 0.25e6
)

func lan(rate float64) func(int) cable {
	return func(int) cable { return cable{rate: rate, queue: 200, delay: 100 * time.Microsecond} }
}

// share is goodput over the rate of the line.
func share(n *network, rate float64) float64 {
	return float64(n.shape.Length) / rate / n.last().Seconds()
}

// 10 MB over a LAN of 100 Mbit/s with no rate given: at least 90 % of the line; 100 MB: 94 %.
func TestRateIsFound(t *testing.T) {
	for _, c := range []struct {
		length uint64
		want   float64
	}{{10e6, 0.90}, {100e6, 0.94}} {
		for _, members := range []int{1, 4, 16} {
			n := begin(t, setting{length: c.length, members: members, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 1})
			n.run(time.Minute)
			n.wantComplete()
			if got := share(n, mbit100); got < c.want {
				t.Errorf("%g bytes to %d members at %.3f of the line, want %.2f; window %d, %+v", float64(c.length), members, got, c.want, n.sender.Window(), n.sender.Counts())
			} else {
				t.Logf("%g bytes to %d members: %.3f, %+v", float64(c.length), members, got, n.sender.Counts())
			}
		}
	}
}

// 1 % independent loss, 8 receivers: repair bytes at most 1.5 of what was lost, stretch at most 1.10.
func TestScatteredLossIsRepairedByParity(t *testing.T) {
	n := begin(t, setting{length: 20e6, members: 8, uplink: cable{rate: mbit100, queue: 200}, seed: 2, cable: func(int) cable {
		return cable{rate: mbit100, queue: 200, delay: 100 * time.Microsecond, loss: 0.01}
	}})
	n.run(time.Minute)
	n.wantComplete()
	t.Logf("%d sent again, %d lost, %.3f of the line, %+v", n.repairs, n.lost, share(n, mbit100), n.sender.Counts())
	if n.repairs > n.lost*3/2 {
		t.Errorf("%d packets were sent again, and %d were lost", n.repairs, n.lost)
	}
	if stretch := 1 / share(n, mbit100); stretch > 1.10 {
		t.Errorf("stretch %.3f", stretch)
	}
}

// LANs of 100 and 2 Mbit/s mixed: all go at the pace of the slow one, at 90 % of it.
func TestAllGoAtThePaceOfTheSlowest(t *testing.T) {
	n := begin(t, setting{length: 4e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 3, cable: mixed})
	n.run(time.Minute)
	n.wantComplete()
	dropped := n.members[3].cable.drops
	t.Logf("%.3f of the slow LAN, %d of %d packets dropped, %+v", share(n, mbit2), dropped, n.sentPackets, n.sender.Counts())
	if got := share(n, mbit2); got < 0.90 {
		t.Errorf("%.3f of the slow LAN", got)
	}
	if dropped*100 > n.sentPackets {
		t.Errorf("%d of %d packets were dropped", dropped, n.sentPackets)
	}
}

// mixed is three members at 100 Mbit/s and one at 2.
func mixed(i int) cable {
	rate := mbit100
	if i == 3 {
		rate = mbit2
	}
	return cable{rate: rate, queue: 200, delay: 100 * time.Microsecond}
}

// The same where no more than a few packets fit into the queue of the slow LAN: no packet waits there for long
// enough to be seen by that, and what does not fit must not be sent again and again.
func TestSlowestHasNextToNoQueue(t *testing.T) {
	for _, queue := range []int{4, 6, 8, 16} {
		n := begin(t, setting{length: 4e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 3, cable: func(i int) cable {
			c := mixed(i)
			if i == 3 {
				c.queue = queue
			}
			return c
		}})
		n.run(time.Minute)
		n.wantComplete()
		t.Logf("%d packets: %.3f of the slow LAN, %d of %d dropped, %+v", queue, share(n, mbit2), n.members[3].cable.drops, n.sentPackets, n.sender.Counts())
		if got := share(n, mbit2); got < 0.88 {
			t.Errorf("%.3f of the slow LAN, into whose queue %d packets fit", got, queue)
		}
		if counts := n.sender.Counts(); counts.Repairs*4 > counts.Packets {
			t.Errorf("%d of %d packets were repairs, with a queue of %d", counts.Repairs, counts.Packets, queue)
		}
	}
}

// Detached, the fast LAN is done in 1 s, and the slow one gets everything all the same.
func TestSlowMemberIsDetached(t *testing.T) {
	n := begin(t, setting{length: 4e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 3, cable: mixed, change: func(s *fast.Settings) { s.Slow = fast.Detach }})
	n.run(2 * time.Minute)
	n.wantComplete()
	for _, m := range n.members[:3] {
		if took := m.finished.Sub(n.begun); took > time.Second {
			t.Errorf("member %d of the fast LAN had everything after %v", m.id, took)
		}
	}
	t.Logf("the slow one after %v; %+v", n.last(), n.sender.Counts())
}

// Two replications at once on one LAN share it, whenever the second begins: over 40 s neither has less than 40 %.
// Over five seconds one may have three times as much as the other.
func TestTwoShareALAN(t *testing.T) {
	for _, later := range []time.Duration{0, 37 * time.Millisecond, 74 * time.Millisecond, 185 * time.Millisecond} {
		wantShared(t, setting{length: 300e6, members: 3, cable: lan(mbit100), seed: 4}, later)
	}
}

// The same holds for two that one machine sends, as from the only store.
func TestTwoShareAMachine(t *testing.T) {
	wantShared(t, setting{length: 300e6, members: 3, uplink: cable{rate: mbit100, queue: 1000}, cable: lan(mbit100), seed: 4, isSame: true}, 37*time.Millisecond)
}

// wantShared has a second replication begin a second after the first, and later by that.
func wantShared(t *testing.T, with setting, later time.Duration) {
	t.Helper()
	first := with
	first.isSame = false
	one := begin(t, first)
	one.run(time.Second + later)
	with.beside = one
	two := begin(t, with)
	one.run(time.Second) // the latecomer finds its share
	a, b := one.sender.Counts().Packets, two.sender.Counts().Packets
	one.run(40 * time.Second)
	a, b = one.sender.Counts().Packets-a, two.sender.Counts().Packets-b
	t.Logf("%d and %d packets while both ran", a, b)
	if least := min(a, b); least*100 < (a+b)*40 {
		t.Errorf("one has %d of %d packets", least, a+b)
	}
	one.run(time.Minute)
	one.wantComplete()
	two.wantComplete()
}

// 64 receivers in one LAN: at most 2 ACKs per poll and 3 NACKs per lost packet. C40: with 100, no more is sent again than
// was asked for.
func TestFeedbackDoesNotGrowWithMembers(t *testing.T) {
	for _, members := range []int{64, 100} {
		n := begin(t, setting{length: 10e6, members: members, uplink: cable{rate: mbit100, queue: 200, loss: 0.005}, cable: lan(mbit100), seed: 5})
		n.run(time.Minute)
		n.wantComplete()
		c := n.sender.Counts()
		lost := n.sentPackets - n.carried
		t.Logf("%d members: %d polls, %d acks, %d packets lost by all, asked for %d times, %d sent again; %.3f of the line", members, c.Polls, n.acks, lost, n.wants, n.repairs, share(n, mbit100))
		if n.acks > 2*int(c.Polls)+3*members { // and each says three times at most that it is done
			t.Errorf("%d answers to %d polls", n.acks, c.Polls)
		}
		if n.wants > 3*lost {
			t.Errorf("%d packets were lost, and were asked for %d times", lost, n.wants)
		}
		if n.repairs > n.wants {
			t.Errorf("%d packets were asked for, and %d sent again", n.wants, n.repairs)
		}
	}
}

// C36: what comes late, out of order by up to 64 packets, or twice is not asked for: no more than a twentieth is sent again.
func TestReorderingIsNoLoss(t *testing.T) {
	n := begin(t, setting{length: 10e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 19, cable: func(int) cable {
		return cable{rate: mbit100, queue: 200, delay: 100 * time.Microsecond, shake: 64 * 120 * time.Microsecond, dup: 0.05}
	}})
	n.run(time.Minute)
	n.wantComplete()
	t.Logf("%d of %d packets were sent again; %.3f of the line", n.repairs, n.sentPackets, share(n, mbit100))
	if n.repairs*20 > n.sentPackets {
		t.Errorf("%d of %d packets were sent again, and none was lost", n.repairs, n.sentPackets)
	}
}

// A member that joins late is caught up, and holds up nobody.
func TestLateMemberIsCaughtUp(t *testing.T) {
	n := begin(t, setting{length: 20e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 6})
	n.run(time.Second)
	down := lan(mbit100)(0)
	late := n.join(&down)
	n.run(time.Minute)
	n.wantComplete()
	for _, m := range n.members[:3] {
		if took := m.finished.Sub(n.begun); took > 2*time.Second {
			t.Errorf("member %d had everything after %v", m.id, took)
		}
	}
	t.Logf("the late one after %v", late.finished.Sub(n.begun))
}

// What members that join late have missed is sent again once, however many they are.
func TestLateMembersShareOneCopy(t *testing.T) {
	n := begin(t, setting{length: 20e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 16})
	var missed int
	for range 3 {
		n.run(300 * time.Millisecond)
		missed = int(n.sender.Passed()) * wire.PacketsPerBlock // by the last of them, and less by the others
		down := lan(mbit100)(0)
		n.join(&down)
	}
	n.run(time.Minute)
	n.wantComplete()
	t.Logf("the last missed %d packets, %d were sent again", missed, n.repairs)
	if n.repairs > missed*5/4 {
		t.Errorf("the last missed %d packets, and %d were sent again", missed, n.repairs)
	}
}

// A member that has not heard that much is zeros is told so again as it was told at first, and not block by block.
func TestLostZerosAreToldOfAtOnce(t *testing.T) {
	const zeros = 50_000
	n := begin(t, setting{
		length: (zeros + 100) * 92_160, members: 2, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 7,
		change: func(s *fast.Settings) { s.Zeros = []fast.Extent{{First: 20, End: 20 + zeros}} },
	})
	n.members[0].cable.cut = true
	for range 1000 {
		if n.sender.Passed() > 20 {
			break
		}
		n.run(time.Millisecond)
	}
	n.run(50 * time.Millisecond) // it has passed the switch
	n.members[0].cable.cut = false
	n.run(time.Minute)
	n.wantComplete()
	sent := uint64(n.sentPackets)
	if c := n.sender.Counts(); c.Packets-c.Polls-sent > 50 || n.members[0].finished.IsZero() {
		t.Errorf("it was said %d times what is zeros: %+v", c.Packets-c.Polls-sent, c)
	}
}

// C39: a receiver that is cut off for 30 s, in the middle of what takes longer, goes on by repair; others are not affected.
func TestCutOffMemberGoesOn(t *testing.T) {
	const rate = mbit100 / 10
	with := setting{
		length: 45e6, members: 4, uplink: cable{rate: rate, queue: 200}, cable: lan(rate), seed: 7,
		change: func(s *fast.Settings) { s.Patience = time.Minute },
	}
	calm := begin(t, with) // nobody is cut off
	calm.run(time.Minute)
	calm.wantComplete()
	n := begin(t, with)
	n.run(500 * time.Millisecond)
	n.members[0].cable.cut = true
	n.run(30 * time.Second)
	if n.sender.Passed() == n.shape.Blocks() {
		t.Error("all was sent before it is back")
	}
	n.members[0].cable.cut = false
	n.run(time.Minute)
	n.wantComplete()
	for _, m := range n.members[1:] {
		if took := m.finished.Sub(n.begun); took > calm.last()+1500*time.Millisecond { // it is waited for until it counts as silent
			t.Errorf("member %d had everything after %v, and after %v where nobody is cut off", m.id, took, calm.last())
		}
	}
	// What was sent meanwhile is lost to it: most of the object, which is sent again.
	if lost := n.sender.Member(0).Lost; lost < 0.3 || lost > 0.6 {
		t.Errorf("the one that was cut off lost %.3f of what was sent", lost)
	}
	if lost := n.sender.Member(1).Lost; lost > 0.01 {
		t.Errorf("another lost %.3f of what was sent", lost)
	}
}

// What is sent while a member is cut off is lost to it, whether it comes back or not: at once, and when it was given up.
func TestCutOffForGoodIsLost(t *testing.T) {
	n := begin(t, setting{length: 30e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 19})
	n.run(500 * time.Millisecond)
	n.members[0].cable.cut = true
	for _, step := range []struct {
		runs time.Duration
		want fast.Outcome
	}{{5 * time.Second, fast.Running}, {time.Minute, fast.Unknown}} {
		n.run(step.runs)
		// Of 2.5 s it had 0.5 s.
		if m := n.sender.Member(0); m.Outcome != step.want || m.Lost < 0.6 || m.Lost > 0.95 {
			t.Errorf("after %v it is %v, and %.3f of what was sent was lost to it", step.runs, m.Outcome, m.Lost)
		}
	}
	if lost := n.sender.Member(1).Lost; lost > 0.01 {
		t.Errorf("another lost %.3f of what was sent", lost)
	}
}

// P3: UNKNOWN never counts as success: one that dies is given up after the patience.
func TestDeadMemberIsUnknown(t *testing.T) {
	n := begin(t, setting{length: 10e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 8})
	n.run(300 * time.Millisecond)
	n.members[1].isDead = true
	n.run(time.Minute)
	n.wantComplete(0, 2)
	if got := n.sender.Member(1).Outcome; got != fast.Unknown {
		t.Errorf("the dead one is %v", got)
	}
	if d := n.sender.Next(n.now, 1); d.Do != fast.End {
		t.Errorf("the sender goes on with %+v", d)
	}
}

// reliability D 16: a sender stops when all feedback is lost.
func TestNothingIsSentBlindly(t *testing.T) {
	n := begin(t, setting{length: 100e6, members: 2, uplink: cable{rate: mbit100, queue: 200}, seed: 9, cable: func(int) cable { return cable{cut: true} }})
	n.run(9 * time.Second)
	if c := n.sender.Counts(); c.Packets-c.Polls > 64 || c.Polls > 100 {
		t.Errorf("nobody answers, and %+v were sent", c)
	}
}

// RFC 8084: where most is lost for long, nothing is sent for a while.
func TestBreakerTrips(t *testing.T) {
	n := begin(t, setting{length: 20e6, members: 2, uplink: cable{}, seed: 11, cable: func(int) cable { return cable{delay: time.Millisecond, loss: 0.7} }})
	n.run(20 * time.Second)
	if c := n.sender.Counts(); c.Trips == 0 {
		t.Errorf("70 %% are lost, and the breaker stays closed: %+v", c)
	}
}

// The ceiling holds whatever is reported.
func TestCeilingHolds(t *testing.T) {
	const ceiling = 1e6
	n := begin(t, setting{length: 100e6, members: 2, uplink: cable{}, cable: func(int) cable { return cable{} }, seed: 11, change: func(s *fast.Settings) { s.Ceiling = ceiling }})
	n.run(5 * time.Second)
	if bytes := float64(n.sender.Counts().Packets) * 1500; bytes > 5*ceiling*1.02+1e4 {
		t.Errorf("%.0f bytes were sent in 5 s", bytes)
	}
}

// A low ceiling is used, too: polls leave room for packets.
func TestLowCeilingIsUsed(t *testing.T) {
	for _, ceiling := range []float64{2e4, 1.5e5, 7e5, 2e6} {
		n := begin(t, setting{
			length: uint64(20 * ceiling), members: 2, uplink: cable{}, seed: 13, cable: func(int) cable { return cable{} },
			change: func(s *fast.Settings) { s.Ceiling = ceiling },
		})
		n.run(40 * time.Second)
		n.wantComplete()
		took := n.last()
		t.Logf("%.0f bytes per second: %v of 20 s, %+v", ceiling, took, n.sender.Counts())
		if timeouts := n.sender.Counts().Timeouts; timeouts > 0 {
			t.Errorf("with %.0f bytes per second members timed out %d times", ceiling, timeouts)
		}
		if took > 26*time.Second {
			t.Errorf("with %.0f bytes per second 20 s of bytes took %v", ceiling, took)
		}
	}
}

// C42: one that asks for all blocks as a whole, again and again, holds nobody up, and is given up in the end.
func TestEndlessWantsAreDetached(t *testing.T) {
	n := begin(t, setting{length: 5e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 14})
	n.tamper = func(r *wire.Reported) {
		if r.State == wire.Landed || r.State == wire.Receiving {
			r.State, r.Frontier, r.Wants = wire.Receiving, 0, []wire.Want{{Block: 0, Run: math.MaxUint16}}
		}
	}
	n.run(60 * time.Second)
	for i, m := range n.members[1:] {
		if status := n.sender.Member(m.id); status.Outcome != fast.Complete || m.finished.Sub(n.begun) > 2*time.Second {
			t.Errorf("honest member %d is %v after %v", i, status.Outcome, m.finished.Sub(n.begun))
		}
	}
	if status := n.sender.Member(n.members[0].id); status.Outcome != fast.Unknown {
		t.Errorf("the one that asks for ever is %v: %+v", status.Outcome, n.sender.Counts())
	}
}

// C42: a member that asks for everything again is served last, and the others have 80 %.
func TestGreedyMemberIsDetached(t *testing.T) {
	n := begin(t, setting{length: 20e6, members: 5, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 12})
	n.tamper = func(r *wire.Reported) {
		if passed := n.sender.Passed(); r.State == wire.Receiving && passed > 2 {
			r.Wants = nil
			for block := passed - 2; block < passed; block++ {
				r.Wants = append(r.Wants, wire.Want{Block: block, Need: 32, Missing: 1<<32 - 1})
			}
		}
	}
	n.run(20 * time.Second)
	n.wantComplete(1, 2, 3, 4)
	for _, m := range n.members[1:] {
		if got := float64(n.shape.Length) / mbit100 / m.finished.Sub(n.begun).Seconds(); got < 0.8*0.95 {
			t.Errorf("member %d was served at %.3f of the line", m.id, got)
		}
	}
}

// What cannot be true is no report.
func TestLiesAreRefused(t *testing.T) {
	n := begin(t, setting{length: 10e6, members: 1, uplink: cable{}, cable: lan(mbit100), seed: 13})
	n.run(50 * time.Millisecond)
	for name, r := range map[string]wire.Reported{
		"a poll that was not sent":       {Poll: 1 << 20},
		"a number that was not sent":     {Seen: 1 << 40},
		"more than was sent":             {Received: 1 << 40},
		"blocks beyond the end":          {Frontier: 1 << 30},
		"landed without having it all":   {State: wire.Landed},
		"complete without having it all": {State: wire.Complete, Frontier: 1},
	} {
		if err := n.sender.Report(0, r, n.now); !errors.Is(err, fast.ErrLie) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// C35, C36: whatever is lost, doubled, late, cut off or dead, whoever lives has everything, once.
func TestWhoeverLivesHasEverything(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { wantEverything(t, r) })
}

func FuzzTransfer(f *testing.F) {
	f.Fuzz(func(t *testing.T, drawn []byte) { rapid.MakeFuzz(func(r *rapid.T) { wantEverything(t, r) })(t, drawn) })
}

func wantEverything(t *testing.T, r *rapid.T) {
	members := rapid.IntRange(1, 12).Draw(r, "members")
	loss := rapid.SampledFrom([]float64{0, 0.001, 0.01, 0.05, 0.2}).Draw(r, "loss")
	length := uint64(rapid.IntRange(0, 3_000_000).Draw(r, "length"))
	seed := rapid.Uint64Range(0, 1<<40).Draw(r, "seed")
	n := begin(t, setting{
		length: length, members: members, uplink: cable{rate: mbit100, queue: 200, loss: loss / 4}, seed: seed,
		cable: func(i int) cable {
			return cable{
				rate: rapid.SampledFrom([]float64{mbit100, mbit100, 1.25e6}).Draw(r, "rate"), queue: rapid.IntRange(20, 300).Draw(r, "queue"),
				delay: time.Duration(rapid.IntRange(10, 5000).Draw(r, "delay")) * time.Microsecond,
				loss:  loss, burst: burst{start: rapid.SampledFrom([]float64{0, 0, 0.001}).Draw(r, "bursts"), length: 50}, dup: rapid.SampledFrom([]float64{0, 0.05}).Draw(r, "dup"), shake: time.Duration(rapid.IntRange(0, 8).Draw(r, "shake")) * time.Millisecond,
			}
		},
		change: func(s *fast.Settings) {
			s.Slow = rapid.SampledFrom([]fast.Slow{fast.Pace, fast.Detach}).Draw(r, "slow")
			s.Number = rapid.SampledFrom([]uint64{0, 1<<32 - 1000, 1 << 47}).Draw(r, "number") // C60
		},
	})
	var alive []fast.ID
	for _, m := range n.members {
		m.landIfEmpty(n)
		switch rapid.SampledFrom([]string{"lives", "lives", "lives", "dies", "is cut off"}).Draw(r, "fate") {
		case "dies":
			n.at(n.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(r, "when"))*time.Millisecond), func() { m.isDead = true })
			continue
		case "is cut off":
			when := time.Duration(rapid.IntRange(0, 400).Draw(r, "when")) * time.Millisecond
			n.at(n.now.Add(when), func() { m.cable.cut = true })
			n.at(n.now.Add(when+2*time.Second), func() { m.cable.cut = false; m.look(n) })
		}
		alive = append(alive, m.id)
	}
	n.run(10 * time.Minute)
	for _, id := range alive {
		m := n.members[id]
		if got := n.sender.Member(id); got.Outcome != fast.Complete || len(m.have) != int(n.shape.Blocks()) {
			r.Fatalf("seed %d: member %d has %d of %d blocks, and the sender says %v", seed, id, len(m.have), n.shape.Blocks(), got.Outcome)
		}
	}
}
