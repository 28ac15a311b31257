package window_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// move has a client come back over another path: its connections end, and it opens others.
func (u *upload) move(path time.Duration) {
	u.path = path
	for _, c := range u.flows {
		c.closed = true
		u.gone += c.received
	}
	u.flows = nil
	u.open()
}

// robotBeside has a client on a path share 10 Mbit/s with others, all with one target.
func robotBeside(t *testing.T, path time.Duration, others int, target float64) (s *site, robot *upload) {
	s, robot = newSite(10*mbit, 200e3, controller(t, window.Groupcast)), &upload{path: path, cubic: true}
	robot.Name, robot.Target = "robot", mbits(target)
	s.join(robot)
	for i := range others {
		u := &upload{path: time.Duration(20+20*i) * ms, cubic: true}
		u.Name, u.Target = string(rune('a'+i)), mbits(target)
		s.join(u)
	}
	return s, robot
}

// A client whose path becomes longer, as from Wi-Fi to a mobile network, has what the link gives again within seconds, alone and beside
// others, with a target and without; and again when it comes back.
func TestPathThatBecomesLonger(t *testing.T) {
	for _, others := range []int{0, 3} {
		for _, target := range []float64{0, 2} {
			s, robot := robotBeside(t, 10*ms, others, target)
			fair := .8 * goodput * 10 * mbit / float64(1+others)
			s.run(30 * second)
			robot.move(100 * ms)
			s.run(60 * second)
			far := robot.mean(50*second, 90*second)
			robot.move(10 * ms)
			s.run(30 * second)
			near := robot.mean(105*second, 120*second)
			t.Logf("beside %d, target %g: %.2f Mbit/s over 100 ms, %.2f over 10 ms again", others, target, far/mbit, near/mbit)
			if far < fair || near < fair {
				t.Errorf("beside %d, target %g: %.2f Mbit/s over 100 ms, %.2f over 10 ms again, want %.2f", others, target, far/mbit, near/mbit, fair/mbit)
			}
		}
	}
}

// longer returns what is seen of a client that is alone, over a path that the kernel has seen to be of some length. It has as much over any.
func longer(rtt time.Duration, ids ...uint64) window.Facts {
	facts := long(rtt)
	first := facts.Clients[0].Connections[0]
	facts.Clients[0].Connections = nil
	for _, id := range ids {
		first.ID, first.Window = id, 3000
		facts.Clients[0].Throughput = 200e3
		facts.Clients[0].Connections = append(facts.Clients[0].Connections, first)
	}
	return facts
}

// A connection that lives on over a longer path shows it once the kernel has forgotten the shorter one. As long as one connection knows
// that, a longer one is a queue's.
func TestRoundTripOfAnotherPathIsForgotten(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	b.advance(10*second, longer(20*ms, 1))
	beside := longer(90*ms, 1, 2)
	beside.Clients[0].Connections[0].LeastRTT = 20 * ms
	if d := b.advance(2*60*second, beside); d.Queue != 70*ms {
		t.Errorf("beside a connection that knows better, the queue is %v", d.Queue)
	}
	if d := b.advance(4*second, longer(90*ms, 2)); d.Queue != 70*ms {
		t.Errorf("of a connection that has just begun, the queue is %v", d.Queue)
	}
	if d := b.advance(3*second, longer(90*ms, 2)); d.Queue != 0 {
		t.Errorf("when nobody has known better for a while, the queue is %v", d.Queue)
	}
}

// A path that becomes longer under a connection that lives on, whose kernel remembers the shorter one for minutes, is noticed by its round
// trip, which stays, and by how little comes: a queue of others would rise and fall. The client has most of its part again within a minute and a quarter, mostly in a
// fifth of that.
func TestPathThatBecomesLongerUnderAConnection(t *testing.T) {
	for _, others := range []int{0, 3} {
		for _, target := range []float64{0, 2} {
			for _, path := range []time.Duration{60 * ms, 100 * ms, 420 * ms} {
				s, robot := robotBeside(t, 20*ms, others, target)
				s.run(30 * second)
				robot.path = path
				for _, c := range robot.flows {
					c.path = path
				}
				s.run(90 * second)
				fair := goodput * 10 * mbit / float64(1+others)
				got := robot.mean(105*second, 120*second)
				t.Logf("beside %d, target %g, %v: %.2f Mbit/s, %.2f before", others, target, path, got/mbit, robot.mean(20*second, 30*second)/mbit)
				if got < .8*fair {
					t.Errorf("beside %d, target %g, %v: %.2f Mbit/s of %.2f", others, target, path, got/mbit, fair/mbit)
				}
			}
		}
	}
}

// While segments are lost, others may fill a queue: it takes longer until the path is taken to be longer.
func TestQueueThatLosesIsNoLongerPathSoon(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	b.advance(10*second, longer(20*ms, 1))
	facts, d := longer(90*ms, 2), window.Decision{}
	lose := func(steps int) {
		for range steps {
			facts.Clients[0].Connections[0].OutOfOrder++
			d = b.step(facts)
		}
	}
	if lose(50); d.Queue != 70*ms {
		t.Errorf("after 25 s the queue is %v", d.Queue)
	}
	if lose(14); d.Queue != 0 {
		t.Errorf("after 32 s the queue is %v", d.Queue)
	}
}
