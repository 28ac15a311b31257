package datagram_test

import (
	"math"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
)

const (
	size = 1200
	rtt  = 50 * time.Millisecond
)

var start = time.Unix(1_000_000, 0)

// child is a link seen from its child: datagrams come at one per millisecond.
type child struct {
	*testing.T
	losses algo.Losses
	now    time.Time
}

func (c *child) arrive(numbers ...uint64) {
	for _, number := range numbers {
		c.now = c.now.Add(time.Millisecond)
		c.losses.Arrived(number, size, rtt, c.now)
	}
}

// run makes the numbers of a range come, except for those that comes excludes.
func (c *child) run(from, to uint64, comes func(uint64) bool) {
	for n := from; n < to; n++ {
		if comes(n) {
			c.arrive(n)
		} else {
			c.now = c.now.Add(time.Millisecond)
		}
	}
}

func (c *child) wantLost(want uint64) {
	c.Helper()
	if got := c.losses.Lost(); got != want {
		c.Errorf("%d are lost: want %d", got, want)
	}
}

func (c *child) wantEventRate(want float64) {
	c.Helper()
	if got := c.losses.EventRate(); math.Abs(got-want) > want/50 {
		c.Errorf("the loss event rate is %.5f: want %.5f", got, want)
	}
}

// RFC 5348, section 5.1: a datagram is lost when three with higher numbers have come.
func TestThreeLaterMakeALoss(t *testing.T) {
	c := &child{T: t, now: start}
	c.arrive(10, 12, 13)
	c.wantLost(0)
	c.arrive(11) // it was only late
	c.arrive(14, 15, 16)
	c.wantLost(0)
	c.arrive(18, 19)
	c.wantLost(0)
	c.arrive(20)
	c.wantLost(1)
	if c.losses.Arrived(20, size, rtt, c.now) {
		t.Error("a duplicate counts as first")
	}
	if got := c.losses.Received(); got != 10 {
		t.Errorf("%d came: want 10", got)
	}
}

// Section 5.2: losses within a round trip are one loss event.
func TestLossesOfARoundTripAreOneEvent(t *testing.T) {
	single, burst := &child{T: t, now: start}, &child{T: t, now: start}
	single.run(0, 2000, func(n uint64) bool { return n%200 != 100 })
	burst.run(0, 2000, func(n uint64) bool { return n%200 < 100 || n%200 >= 110 })
	single.wantLost(10)
	burst.wantLost(100)
	single.wantEventRate(1.0 / 200)
	burst.wantEventRate(1.0 / 200)
}

// Section 5.4: the rate is the inverse of the mean interval between loss events; an open interval counts if it makes that longer.
func TestEventRate(t *testing.T) {
	c := &child{T: t, now: start}
	c.run(0, 1000, func(uint64) bool { return true })
	if got := c.losses.EventRate(); got != 0 {
		t.Errorf("without loss it is %v", got)
	}
	c.run(1000, 3000, func(n uint64) bool { return n%100 != 0 })
	c.wantEventRate(1.0 / 100)
	c.run(3000, 3100, func(uint64) bool { return true })
	c.wantEventRate(6.0 / (200 + 5*100)) // of the weights, 1 is the open interval's, 5 are the others'
	before := c.losses.EventRate()
	c.run(3100, 6000, func(uint64) bool { return true })
	if got := c.losses.EventRate(); got > before/2 {
		t.Errorf("after a long time without loss it is %.5f, and was %.5f", got, before)
	}
}

// Section 6.3.1: the interval before the first loss is the one at which TCP would have had the rate that came through.
func TestFirstIntervalGoesByTheRate(t *testing.T) {
	c := &child{T: t, now: start}
	c.run(0, 1000, func(n uint64) bool { return n != 990 })
	p := c.losses.EventRate()
	rate := c.losses.Rate(c.now) // 1200 bytes per millisecond
	if got := algo.Throughput(size, rtt, p); math.Abs(got-rate) > rate/50 {
		t.Errorf("p is %.6f, worth %.0f bytes/s: %.0f came", p, got, rate)
	}
}

// If a stream sends little and has lost nothing for long, the first loss does not slow it down to the rate at which it sends.
func TestFirstIntervalIsNoShorterThanItWas(t *testing.T) {
	c := &child{T: t, now: start}
	for n := range uint64(1000) {
		c.now = c.now.Add(20 * time.Millisecond)
		if n != 990 {
			c.losses.Arrived(n, size, rtt, c.now)
		}
	}
	c.wantEventRate(1.0 / 990)
}

// A neighbour that claims to have sent far more does no harm. If a gap is larger than the window,
// what came just before it and was not judged yet counts as lost with it.
func TestHugeGap(t *testing.T) {
	c := &child{T: t, now: start}
	c.arrive(0, 1, 2, 3, 1<<62, 1<<62+1, 1<<62+2, 1<<62+3)
	c.wantLost(1<<62 - 2)
}

// RFC 5348, section 3.1, computed by hand: 1460 / (0.1 sqrt(2/300) + 0.4 · 3 sqrt(3/800) · 0.01 · 1.0032).
func TestThroughput(t *testing.T) {
	if got := algo.Throughput(1460, 100*time.Millisecond, 0.01); math.Abs(got-164_013) > 200 {
		t.Errorf("got %.0f bytes/s", got)
	}
	for p := 1e-6; p < 0.5; p *= 2 {
		if algo.Throughput(1460, rtt, p) <= algo.Throughput(1460, rtt, 2*p) {
			t.Errorf("more loss than %v does not slow down", p)
		}
	}
}
