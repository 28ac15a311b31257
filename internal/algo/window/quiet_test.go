package window_test

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// quiet has clients of higher priority come that keep their streams open, bring a few lines at first and no more, and may send when
// they like.
func (s *site) quiet(n int, target, minimum float64) (all []*upload) {
	for i := range n {
		u := &upload{path: 20 * ms, rate: 1}
		u.Name, u.Target, u.Minimum, u.Priority = fmt.Sprint("ward ", i), mbits(target), mbits(minimum), 1
		all = append(all, s.join(u))
		u.flows[0].more = func() uint64 { return 20 }
	}
	return all
}

// speak has a client that was quiet send so much from now on.
func (u *upload) speak(rate float64) {
	u.rate = rate
	for _, c := range u.flows {
		before, more := c.next, u.more(u.site.now)
		c.more = func() uint64 { return min(before+more(), u.credit(c)) }
	}
}

// Streams that are open and quiet hold nothing: the one client that sends has the link, whether or not it is known what that carries, and
// whether or not the quiet ones have targets.
func TestQuietStreamsHoldNothing(t *testing.T) {
	for _, known := range []bool{true, false} {
		for _, target := range []float64{1, 0} {
			s := newSite(8*mbit, 200e3, controller(t, window.Groupcast))
			if known {
				s.link.Rate = 7.6 * mbit
			}
			s.quiet(10, target, target/2)
			archive := &upload{path: 20 * ms}
			archive.Name, archive.Target = "archive", mbits(target/2)
			s.join(archive)
			s.run(60 * second)
			got := archive.mean(10*second, 60*second)
			t.Logf("link known %v, targets of %g: %.3f of 7.6 Mbit/s", known, target, got/mbit)
			if got < 7*mbit {
				t.Errorf("link known %v, targets of %g: %.3f of 7.6 Mbit/s", known, target, got/mbit)
			}
		}
	}
}

// On a near path a few segments per round trip are far more than any link: a client that sends gets its part all the same.
func TestQuietStreamsThatAreNearHoldNothing(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	facts := long(10*ms, ms/5, ms/5, ms/5)
	facts.Link.Rate = 10e6
	for i := range facts.Clients[1:] {
		c := &facts.Clients[1+i]
		c.Throughput, c.Connections[0].Throughput, c.Connections[0].Idle, c.Connections[0].Window = 0, 0, true, 30000
	}
	facts.Clients[0].Connections[0].Window = 3000
	d := b.advance(10*second, facts)
	b.wantRate(d, 0, 80)
	for _, share := range d.Shares[1:] {
		if share.Reason != window.Unused || share.Rate < 1e6 {
			t.Errorf("%s may have %v at once, because %s", share.Name, share.Rate, share.Reason)
		}
	}
}

// The round trip of a client that sends heartbeats and nothing else is no shorter than its acknowledgements are late. Nobody takes that
// for a queue.
func TestQuietStreamsTellOfNoQueue(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	facts := long(20*ms, 20*ms, 20*ms, 20*ms, 20*ms)
	facts.Clients[0].Connections[0].Window = 10000
	for i := range facts.Clients[1:] {
		c := &facts.Clients[1+i]
		c.Target, c.Priority = mbits(1), 1
		c.Throughput, c.Connections[0].Throughput, c.Connections[0].RTT = 200, 200, 60*ms
	}
	if d := b.advance(10*second, facts); d.Queue > 0 || d.Shares[0].Rate < 1.2*facts.Clients[0].Throughput {
		t.Errorf("a queue of %v is seen, and %v planned for the one that sends %v", d.Queue, d.Shares[0].Rate, facts.Clients[0].Throughput)
	}
}

// When those that were quiet begin to send, they have their targets within 3 s, and what is then left goes to the others.
func TestQuietStreamsBeginAtOnce(t *testing.T) {
	for _, known := range []bool{true, false} {
		s := newSite(8*mbit, 200e3, controller(t, window.Groupcast))
		if known {
			s.link.Rate = 7.6 * mbit
		}
		wards := s.quiet(5, 1, .5)
		archive := &upload{path: 20 * ms}
		archive.Name, archive.Target = "archive", .5*mbit
		s.join(archive)
		s.run(60 * second)
		for _, u := range wards {
			u.speak(1.1 * mbit)
		}
		s.run(30 * second)
		tell(t, append(wards, archive), 63*second, 90*second)
		wantTargets(t, wards, .95, 3*second, 63*second, 90*second)
	}
}
