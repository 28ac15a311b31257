package window_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// Who has learnt its round trip while a queue stood believes that it is the path's, and with it
// the queue. It is let run empty now and then, so that it goes.
func TestQueueThatWasLearntIsForgotten(t *testing.T) {
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

// The first window is smaller when many come at once, where the link is known.
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

// Each controller does the same twice.
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
