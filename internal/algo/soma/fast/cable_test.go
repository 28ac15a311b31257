package fast_test

import (
	"math/rand/v2"
	"time"
)

// cable carries packets at a rate, after a queue.
type cable struct {
	rate  float64 // bytes per second; zero is without end
	queue int     // packets that fit
	delay time.Duration
	loss  float64
	burst burst
	dup   float64
	shake time.Duration // how much later some packets are
	cut   bool
	most  int // bytes of the largest packet that passes; zero is any
	free  time.Time
	drops int
}

// burst is the Gilbert model: a good state that loses nothing, and a bad one that loses everything. That ends after burstMost in any
// case: where next to nothing is sent it would last for ever.
type burst struct {
	start  float64 // probability with which a packet begins a bad one
	length float64 // packets in it in the mean, at least 1
	isOn   bool
	began  time.Time
}

const burstMost = 240 * time.Millisecond

// loses goes on by a packet, and reports whether that is lost.
func (b *burst) loses(random *rand.Rand, now time.Time) bool {
	switch {
	case b.start == 0:
		return false
	case b.isOn:
		b.isOn = random.Float64() >= 1/b.length && now.Sub(b.began) < burstMost
	default:
		b.isOn, b.began = random.Float64() < b.start, now
	}
	return b.isOn
}

// carry brings a packet through a cable, perhaps.
func (n *world) carry(c *cable, size int, do func()) (arrives bool) {
	if c.cut || c.most > 0 && size > c.most || c.loss > 0 && n.random.Float64() < c.loss || c.burst.loses(n.random, n.now) {
		return false
	}
	leaves := n.now
	if c.rate > 0 {
		takes := time.Duration(float64(size) / c.rate * float64(time.Second))
		if c.free.Before(n.now) {
			c.free = n.now
		}
		if c.queue > 0 && c.free.Sub(n.now).Seconds() > float64(c.queue*(datagram+28))/c.rate {
			c.drops++
			return false
		}
		c.free = c.free.Add(takes)
		leaves = c.free
	}
	leaves = leaves.Add(c.delay)
	if c.shake > 0 && n.random.IntN(10) == 0 {
		leaves = leaves.Add(time.Duration(n.random.Int64N(int64(c.shake))))
	}
	n.at(leaves, do)
	if c.dup > 0 && n.random.Float64() < c.dup {
		n.at(leaves.Add(time.Millisecond), do)
	}
	return true
}
