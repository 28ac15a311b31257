package datagram_test

import (
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
)

// circuit is a link of 1000 datagrams a second with a breaker.
type circuit struct {
	*testing.T
	algo.Breaker
	now            time.Time
	sent, received float64
}

// run loses a share of what is sent, and returns how often the breaker trips.
func (c *circuit) run(span time.Duration, loss float64) (trips int) {
	for end := c.now.Add(span); c.now.Before(end); c.now = c.now.Add(100 * time.Millisecond) {
		if !c.IsOpen(c.now) {
			c.sent += 100
			c.received += 100 * (1 - loss)
		}
		if c.Measure(uint64(c.sent), uint64(c.received), rtt, c.now) {
			trips++
		}
	}
	return trips
}

func newCircuit(t *testing.T) *circuit { return &circuit{T: t, now: start} }

// RFC 8085, section 3.1.10: the breaker is for persistent excessive congestion. It does not trip at
// a loss with which transports can live, nor at one that is soon over.
func TestBreakerStays(t *testing.T) {
	c := newCircuit(t)
	if trips := c.run(time.Minute, 0.05); trips > 0 {
		t.Error("5 % of loss trip it")
	}
	for range 10 {
		if trips := c.run(3*time.Second, 1) + c.run(3*time.Second, 0); trips > 0 {
			t.Fatal("three seconds without anything trip it")
		}
	}
}

// RFC 8084, section 4: the breaker stops the flow, and does not resume it by itself at once.
func TestBreakerTrips(t *testing.T) {
	c := newCircuit(t)
	if trips := c.run(7*time.Second, 0.5); trips != 1 || !c.IsOpen(c.now) {
		t.Fatalf("half of all lost for 7 s: it tripped %d times", trips)
	}
	before := c.sent
	c.run(7*time.Second, 0)
	if c.sent != before {
		t.Error("what is sent does not stop")
	}
	c.run(5*time.Second, 0)
	if c.IsOpen(c.now) || c.sent == before {
		t.Error("it never tries again")
	}
}

// Each time the breaker stays open for twice as long, until all has been well for a while.
func TestBreakerIsSlowerEachTime(t *testing.T) {
	c := newCircuit(t)
	c.run(20*time.Minute, 1)
	if c.Trips() < 6 || c.Trips() > 9 {
		t.Errorf("in 20 minutes without a path it tripped %d times", c.Trips())
	}
	share := c.sent / (20 * 60 * 1000)
	if share > 0.05 {
		t.Errorf("%.1f %% of the time it sent into the void", 100*share)
	}
	c.run(10*time.Minute, 0)
	c.run(7*time.Second, 1)
	if c.run(12*time.Second, 0); c.IsOpen(c.now) {
		t.Error("it has not forgotten what was long ago")
	}
}
