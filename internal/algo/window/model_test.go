package window_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

const (
	mbit   = 1e6 / 8
	second = time.Second
)

func controller(t testing.TB, name string) window.Controller {
	t.Helper()
	c, err := window.New(name, window.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fixed sets one window, and touches nothing else.
type fixed int

func (f fixed) First() int { return int(f) }
func (f fixed) Step(_ time.Time, facts window.Facts) window.Decision {
	d := window.Decision{Shares: make([]window.Share, len(facts.Clients))}
	for i, client := range facts.Clients {
		d.Shares[i].Windows = make([]window.Window, len(client.Connections))
		for j := range d.Shares[i].Windows {
			d.Shares[i].Windows[j].Bytes = int(f)
		}
	}
	return d
}

// What was measured of the kernel holds of the model: a connection brings one window per round trip,
// within 10 %; a segment that is alone in its window waits, and throughput falls off a cliff.
func TestModelGivesAWindowPerRoundTrip(t *testing.T) {
	for _, bytes := range []int{8 << 10, 16 << 10, 128 << 10, 256 << 10} {
		s := newSite(100*mbit, 1<<20, fixed(bytes))
		u := s.join(&upload{path: 50 * time.Millisecond})
		s.run(10 * second)
		got, want := u.mean(5*second, 10*second), float64(bytes)/.05
		t.Logf("%d: %.2f of %.2f Mbit/s, round trip %v", bytes, got/mbit, want/mbit, u.flows[0].rtt)
		if got < .9*want || got > 1.1*want {
			t.Errorf("window of %d: %.2f Mbit/s, want %.2f", bytes, got/mbit, want/mbit)
		}
	}
	s := newSite(100*mbit, 1<<20, fixed(payload))
	u := s.join(&upload{path: 5 * time.Millisecond})
	s.run(10 * second)
	if got := u.mean(5*second, 10*second); got > .5*payload/.005 {
		t.Errorf("one segment gives %.2f Mbit/s over 5 ms: no cliff", got/mbit)
	}
}

// Without a window of ours a sender fills the link and the queue.
func TestModelFillsTheLinkAndTheQueue(t *testing.T) {
	for _, cubic := range []bool{false, true} {
		s := newSite(10*mbit, 100e3, controller(t, window.Traditional))
		u := s.join(&upload{path: 50 * time.Millisecond, cubic: cubic})
		v := s.join(&upload{path: 50 * time.Millisecond, cubic: cubic})
		s.run(10 * second)
		queue := s.queue()
		s.run(30 * second)
		got := u.mean(10*second, 40*second) + v.mean(10*second, 40*second)
		t.Logf("cubic %v: %.2f + %.2f Mbit/s, queue %.0f bytes, dropped %d", cubic, u.mean(10*second, 40*second)/mbit, v.mean(10*second, 40*second)/mbit, queue(), s.access.dropped)
		if got < .9*10*mbit*payload/wire || queue() < 30e3 || s.access.dropped == 0 {
			t.Errorf("cubic %v: %.2f Mbit/s, queue of %.0f bytes, %d dropped", cubic, got/mbit, queue(), s.access.dropped)
		}
	}
}
