package link

import "math/rand/v2"

// chance decides the fate of packets. Every effect draws from a stream of its
// own, so switching one on does not change what the others do.
type chance struct {
	loss, burst, duplicate, corrupt, reorder *rand.Rand

	inBurst bool
}

func newChance(seed uint64) chance {
	stream := func(number uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, number)) }
	return chance{loss: stream(1), burst: stream(2), duplicate: stream(3), corrupt: stream(4), reorder: stream(5)}
}

func happens(source *rand.Rand, probability float64) bool {
	return probability > 0 && source.Float64() < probability
}

func (c *chance) loses(s *Shape) bool {
	random := happens(c.loss, s.Loss)
	return c.burstLoses(s.Burst) || random
}

func (c *chance) burstLoses(b Burst) bool {
	if b.Start == 0 {
		c.inBurst = false
		return false
	}
	if c.inBurst {
		c.inBurst = !happens(c.burst, 1/b.Length)
	}
	if !c.inBurst {
		c.inBurst = happens(c.burst, b.Start)
	}
	return c.inBurst
}

// damage flips one bit of frame at or behind from.
func (c *chance) damage(frame []byte, from int) {
	if len(frame) <= from {
		return
	}
	bit := c.corrupt.IntN((len(frame) - from) * 8)
	frame[from+bit/8] ^= 1 << (bit % 8)
}
