package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// A client that joins while a queue stands keeps no part of that when it is gone.
func TestJoiningInAQueueLeavesNone(t *testing.T) {
	s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
	s.access.stream(12*mbit, 4*second)
	s.run(1 * second) // a queue of 200 KB stands
	all := six(s, true)
	s.run(14 * second)
	queue := s.queue()
	s.run(20 * second)
	sum := tell(t, all, 15*second, 35*second)
	t.Logf("queue %.0f bytes", queue())
	if queue() > 25e3 || sum < .95*goodput*10*mbit {
		t.Errorf("a queue of %.0f bytes, and %.2f Mbit/s", queue(), sum/mbit)
	}
}

// The controller tells how long the queue before the access link is, whoever fills it: next to nothing while only clients send, and as
// long as it is beside greedy connections.
func TestQueueThatStandsIsTold(t *testing.T) {
	s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
	six(s, false)
	s.run(20 * second)
	alone := s.last.Queue
	s.greedy(3)
	s.run(20 * second)
	queue := s.queue()
	told := time.Duration(0)
	const steps = 20
	for range steps {
		s.run(window.Interval)
		told += s.last.Queue / steps
	}
	stood := time.Duration(queue() / (10 * mbit) * float64(second))
	t.Logf("alone %v; beside others %v were told of %v", alone, told, stood)
	if alone > 20*ms || told < stood*3/4 || told > stood*5/4 {
		t.Errorf("a queue of %v is told to be %v, and %v before it stood", stood, told, alone)
	}
}

// A client that has learnt its round trip while a queue stood takes the queue to be a part of its path. So
// for a step the windows let the queue run empty: a second after a queue was first seen, and then after 4, 8, 16 s if
// nothing was learnt from it; 4 s after something was.
func TestQueueIsLetRunEmptyNowAndThen(t *testing.T) {
	drains := func(facts func(drains int) window.Facts) (at []time.Duration) {
		b := newBench(t, window.Groupcast, window.Options{})
		b.advance(second, uploading(32e3).queued(1)) // a queue was seen
		before := 0
		for now := time.Duration(0); now < 32*second; now += window.Interval {
			d := b.step(facts(len(at)))
			got := d.Shares[0].Windows[0].Bytes
			if float64(got) < .85*float64(before) {
				at = append(at, now)
			}
			before = got
		}
		return at
	}
	gaps := func(at []time.Duration) (gaps []time.Duration) {
		for i := 1; i < len(at); i++ {
			gaps = append(gaps, (at[i] - at[i-1]).Truncate(second))
		}
		return gaps
	}
	nothing := drains(func(int) window.Facts { return uploading(64e3).Facts })
	if diff := cmp.Diff([]time.Duration{4 * second, 8 * second, 16 * second}, gaps(nothing)); diff != "" || nothing[0] > 2*second {
		t.Errorf("at %v: %s", nothing, diff)
	}
	shorter := drains(func(drains int) window.Facts { // a tenth with each
		facts := uploading(64e3).Facts
		for i := range facts.Clients {
			one := &facts.Clients[i].Connections[0]
			one.RTT = time.Duration(float64(one.RTT) * math.Pow(.9, float64(drains)))
			one.LeastRTT = one.RTT
		}
		return facts
	})
	if len(shorter) < 6 {
		t.Errorf("at %v only, though each time something was learnt", shorter)
	}
}

// A link that has less than the targets keeps a short queue, however much less that is, and for however long. Looking now and then
// whether it still has less costs little.
func TestShortLinkHasAShortQueue(t *testing.T) {
	for _, times := range []float64{1.2, 2, 4} {
		s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
		var all []*upload
		for i := range 6 {
			u := terminal(1, i, false)
			u.Target = window.Rate(times * 10 * mbit / 6)
			all = append(all, s.join(u))
		}
		s.run(20 * second)
		queue, dropped := s.queue(), s.access.dropped
		s.run(20 * time.Minute)
		mean, lost, sum := queue(), s.access.dropped-dropped, rate(all, 20*second, 20*time.Minute)
		t.Logf("targets %.1f times the link: queue %.0f bytes, %d dropped, %.2f Mbit/s", times, mean, lost, sum/mbit)
		if mean > 50e3 || lost > 1000 || sum < .95*goodput*10*mbit {
			t.Errorf("targets %.1f times the link: queue %.0f bytes, %d dropped, %.2f Mbit/s", times, mean, lost, sum/mbit)
		}
	}
}

// So does the path of one client that has less than its target.
func TestNarrowPathHasAShortQueue(t *testing.T) {
	s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
	own := &pipe{world: &s.world, rate: .3 * mbit, limit: 64e3, arrive: s.access.take}
	u := terminal(1, 0, false)
	u.own = own
	s.join(u)
	for i := range 5 {
		s.join(terminal(1, i+1, false))
	}
	s.run(20 * second)
	own.account()
	area, dropped := own.area, own.dropped
	s.run(20 * time.Minute)
	own.account()
	mean := (own.area - area) / (20 * time.Minute).Seconds()
	t.Logf("queue %.0f bytes, %d dropped, %.3f Mbit/s", mean, own.dropped-dropped, u.mean(20*second, 20*time.Minute)/mbit)
	if mean > 8e3 || own.dropped-dropped > 100 || u.mean(20*second, 20*time.Minute) < .9*goodput*.3*mbit {
		t.Errorf("queue %.0f bytes, %d dropped, %.3f Mbit/s", mean, own.dropped-dropped, u.mean(20*second, 20*time.Minute)/mbit)
	}
}

// The first window is smaller when many come at once, if the link is known.
func TestFirstWindowIsSharedByThoseWhoCome(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	if got := b.First(); got != 32<<10 {
		t.Errorf("at first it is %d", got)
	}
	b.advance(2*second, uploading(32e3).queued(1)) // 7.6 Mbit/s come, with a queue
	b.step(uploading(32e3).queued(1))
	if got := b.First(); got < 20e3 {
		t.Errorf("with nobody new it is %d", got)
	}
	facts := uploading(32e3).queued(1)
	for range 9 {
		facts = young(facts, 0)
	}
	alone := b.First()
	b.step(facts)
	if got := b.First(); got >= alone/2 || got < 8<<10 {
		t.Errorf("with nine new ones it is %d of %d", got, alone)
	}
}

// A client opens and closes connections at most six times in a minute, whatever happens to it.
func TestConnectionsChangeSeldom(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	facts := uploading(24e3)
	changes, last := make([]int, 3), make([]int, 3)
	for step := range int(time.Minute / window.Interval) {
		seen := facts.Facts
		if step/8%2 == 0 {
			seen = uploading(24e3).queued(.3)
		}
		for i := range seen.Clients {
			seen.Clients[i].Connections[0].OutOfOrder = uint64(step)
		}
		for i, share := range b.step(seen).Shares {
			if step > 0 && share.Connections != last[i] {
				changes[i]++
			}
			last[i] = share.Connections
		}
	}
	total := 0
	for _, n := range changes {
		total += n
		if n > 6 {
			t.Errorf("%d changes in a minute", changes)
		}
	}
	if total == 0 {
		t.Error("nothing was changed by loss")
	}
}

// Each controller does the same when it is run twice.
func TestDecisionsFollowFromFacts(t *testing.T) {
	for _, name := range window.Names() {
		a, b := newBench(t, name, window.Options{}), newBench(t, name, window.Options{})
		for i := range 40 {
			share := float64(1+i%5) / 5
			if x, y := a.step(uploading(24e3).queued(share)).String(), b.step(uploading(24e3).queued(share)).String(); x != y {
				t.Fatalf("%s: %s is not %s", name, x, y)
			}
		}
	}
}
