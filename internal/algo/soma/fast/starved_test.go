package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const mbit10 = 1.25e6

// C38: a path that begins to swallow packets, while polls, which are small, still get through: a member behind it has
// nothing new, and is given up after the patience, like one that is silent. The others have everything.
func TestSwallowedPacketsAreNoticed(t *testing.T) {
	n := begin(t, setting{length: 10e6, members: 3, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 8})
	n.run(300 * time.Millisecond)
	n.members[1].cable.most = 600
	n.run(15 * time.Second)
	n.wantComplete(0, 2)
	if got := n.sender.Member(1).Outcome; got != fast.Unknown {
		t.Errorf("the one to which nothing gets is %v; it has %d of %d blocks, %+v", got, len(n.members[1].have), n.shape.Blocks(), n.sender.Counts())
	}
	if d := n.sender.Next(n.now, 1); d.Do != fast.End {
		t.Errorf("the sender goes on with %+v", d)
	}
}

// A member that was given up because nothing gets to it stays given up whatever it says, and is back once something gets to it.
func TestWhoIsStarvedIsNotBack(t *testing.T) {
	n := begin(t, setting{length: 45e6, members: 3, uplink: cable{rate: mbit10, queue: 200}, cable: lan(mbit10), seed: 8})
	var said wire.Reported
	n.tamper = func(r *wire.Reported) { said = *r }
	n.run(300 * time.Millisecond)
	n.members[0].cable.most = 600
	n.run(15 * time.Second)
	for range 100 {
		n.run(100 * time.Millisecond)
		if err := n.sender.Report(0, said, n.now); err != nil {
			t.Fatal(err)
		}
		if got := n.sender.Member(0).Outcome; got != fast.Unknown {
			t.Fatalf("it is %v, and has %d blocks", got, said.Frontier)
		}
	}
	n.members[0].cable.most = 0
	n.run(time.Second)
	if got := n.sender.Member(0).Outcome; got != fast.Running || n.sender.Passed() == n.shape.Blocks() {
		t.Errorf("it is %v, with %d blocks sent", got, n.sender.Passed())
	}
	n.run(3 * time.Minute)
	n.wantComplete()
}

// A member that was cut off for longer than a starved one is waited for is not taken for one when it is back, although others were
// sent much meanwhile, and it says what it has said last.
func TestWhoIsBackIsNotStarved(t *testing.T) {
	n := begin(t, setting{length: 30e6, members: 2, uplink: cable{rate: mbit10, queue: 200}, cable: lan(mbit10), seed: 8, change: func(s *fast.Settings) { s.Patience = 30 * time.Second }})
	var said wire.Reported
	n.tamper = func(r *wire.Reported) { said = *r }
	n.run(300 * time.Millisecond)
	n.run(time.Millisecond) // the last is heard, too
	n.members[0].isDead = true
	n.run(15 * time.Second)
	if err := n.sender.Report(0, said, n.now); err != nil {
		t.Fatal(err)
	}
	n.sender.Next(n.now, 1)
	if got := n.sender.Member(0); got.Outcome != fast.Running || got.Silent {
		t.Errorf("it is back, and counts as %+v", got)
	}
}

// A member that hears nothing for minutes, for its disk holds it up, and says so every few seconds is not taken for a starved one, also
// among so many that none counts as silent for a while: others are sent much meanwhile.
func TestWhoDoesNotListenIsNotStarved(t *testing.T) {
	far := func(int) cable { return cable{rate: mbit10, queue: 200, delay: 50 * time.Millisecond} }
	n := begin(t, setting{length: 200e6, members: 14, uplink: cable{rate: mbit10, queue: 200}, cable: far, seed: 8, change: patient})
	var said wire.Reported
	n.tamper = func(r *wire.Reported) { said = *r }
	n.run(5 * time.Second)
	n.members[0].isDead = true
	said.Wants = nil
	for pause := 1500 * time.Millisecond; n.now.Sub(n.begun) < 2*time.Minute; pause = 5 * time.Second {
		for end := n.now.Add(pause); n.now.Before(end); {
			n.run(100 * time.Millisecond)
			if got := n.sender.Member(0); got.Outcome != fast.Running {
				t.Fatalf("after %v it counts as %+v", n.now.Sub(n.begun), got)
			}
		}
		if err := n.sender.Report(0, said, n.now); err != nil {
			t.Fatal(err)
		}
	}
}

// A member that was given up for its silence is asked on while the sender stays for others, a few times a second, and served once it is back: also
// where all others have all. A member that answers, and gets nothing, is not.
func TestWhoIsBackAtTheEndIsServed(t *testing.T) {
	for _, isBack := range []bool{true, false} {
		n := begin(t, setting{length: 10e6, members: 12, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 8, change: patient})
		away := n.members[5].cable
		n.run(300 * time.Millisecond)
		if away.cut = isBack; !isBack {
			away.most = 600
		}
		n.run(2 * time.Minute)
		if got := n.sender.Member(5).Outcome; got != fast.Unknown {
			t.Fatalf("it is %v before it is back", got)
		}
		n.lingers = true
		before := n.sender.Counts().Polls
		n.act()
		n.run(time.Minute)
		asked := n.sender.Counts().Polls - before
		if isBack != (asked > 60) || asked > 300 {
			t.Errorf("it is back: %v, and was asked %d times in a minute", isBack, asked)
		}
		away.cut, away.most = false, 0
		n.run(time.Minute)
		if isBack {
			n.wantComplete()
		}
	}
}

// A member that misses something that comes after what another misses waits for its turn, as long as that takes: it is not given up, and
// gets it also where the other is gone meanwhile.
func TestWhoWaitsForItsTurnIsNotStarved(t *testing.T) {
	for _, dies := range []bool{false, true} {
		n := begin(t, setting{length: 24e6, members: 1, uplink: cable{rate: mbit10, queue: 200}, cable: lan(mbit10), seed: 8})
		n.run(13 * time.Second)
		down := lan(mbit10)(0)
		late := n.join(&down)
		n.run(time.Second)
		n.members[0].cable.cut = true
		n.run(3 * time.Second)
		n.members[0].cable.cut = false
		var waited time.Duration
		for range 400 {
			n.run(100 * time.Millisecond)
			one := n.sender.Member(0)
			if one.Outcome == fast.Unknown {
				t.Fatalf("after %v the one that waits for its turn is given up: %+v, the late one is %+v", n.now.Sub(n.begun), one, n.sender.Member(late.id))
			}
			if n.sender.Passed() == n.shape.Blocks() && one.Blocks > 0 && one.Blocks < n.shape.Blocks() {
				waited += 100 * time.Millisecond
			}
			late.isDead = dies && n.sender.Member(late.id).Blocks > 150
		}
		if waited < 12*time.Second {
			t.Errorf("it waited for no more than %v", waited)
		}
		n.wantComplete(0)
		if !dies {
			n.wantComplete()
		}
	}
}

// A member that has all that was sent so far waits as long as need be for one that holds everybody up.
func TestWhoMissesNothingMayWait(t *testing.T) {
	n := begin(t, setting{length: 4e6, members: 2, uplink: cable{rate: mbit100, queue: 200}, seed: 8, cable: func(i int) cable {
		return cable{rate: []float64{mbit100, mbit2 / 8}[i], queue: 20, delay: 100 * time.Microsecond}
	}})
	n.run(5 * time.Minute)
	n.wantComplete()
}
