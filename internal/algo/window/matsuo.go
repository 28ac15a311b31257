package window

import (
	"math"
	"time"
)

// matsuo is the method that 003 compares with: "maximum throughput of each session is estimated
// by RTT, the ratio of packet discarding, and time-out value […]. In addition to the throughput
// estimation, entire buffer size on a server is assigned to every client according to ratio of
// estimated throughput and the number of TCP connections is set to one" (003 §IV-B).
type matsuo struct {
	budget int
	losses map[uint64]*lossRate
}

// lossRate is what a receiver sees of loss: each step in which segments came out of order counts as
// one loss event, as a sender takes all losses of a round trip for one.
type lossRate struct {
	outOfOrder       uint64
	received         uint64
	events, segments float64
	seen             bool
}

// lossMemory is the part of earlier loss that still counts after a step: half of it is forgotten in
// seven seconds.
const lossMemory = .95

func newMatsuo(o Options) Controller {
	return &matsuo{budget: o.buffer(), losses: map[uint64]*lossRate{}}
}

func (*matsuo) First() int { return 0 }

func (m *matsuo) Step(_ time.Time, facts Facts) Decision {
	facts = sane(facts)
	decision := begin(facts)
	decision.Budget = m.budget
	if facts.Link.Memory > 0 {
		decision.Budget = min(m.budget, facts.Link.Memory)
	}
	estimates := make([]float64, len(facts.Clients))
	sum := 0.0
	for i, c := range facts.Clients {
		for _, one := range c.Connections {
			estimates[i] += m.estimate(one)
		}
		sum += estimates[i]
	}
	for i, c := range facts.Clients {
		share := &decision.Shares[i]
		share.Connections, share.Reason, share.Bottleneck = 1, Ratio, None
		if sum > 0 {
			bytes := float64(decision.Budget) * estimates[i] / sum
			share.Rate = Rate(bytes / c.rtt().Seconds())
			c.windows(share, bytes, 0)
		}
	}
	for id, l := range m.losses {
		if !l.seen {
			delete(m.losses, id)
		}
		l.seen = false
	}
	return decision
}

func (m *matsuo) estimate(one Connection) float64 {
	l := m.losses[one.ID]
	if l == nil {
		l = &lossRate{outOfOrder: one.OutOfOrder, received: one.Received}
		m.losses[one.ID] = l
	}
	l.seen = true
	l.events, l.segments = lossMemory*l.events, lossMemory*l.segments
	if one.OutOfOrder > l.outOfOrder {
		l.events++
	}
	if one.Received > l.received {
		l.segments += float64(one.Received-l.received) / float64(one.MSS)
	}
	l.outOfOrder, l.received = one.OutOfOrder, one.Received
	loss := (l.events + 1) / (l.segments + 100) // as if one of a hundred had been lost before
	rtt := orUsual(one.RTT)
	return Expected(one.MSS, rtt, max(200*time.Millisecond, 2*rtt), min(loss, 1))
}

// Expected is the throughput of a TCP connection, in bytes per second, by round trip, timeout and
// loss: the model of Padhye et al. that 003's reference 8 builds on, with an acknowledgement for
// two segments.
func Expected(mss int, rtt, timeout time.Duration, loss float64) float64 {
	const b = 2
	waits := rtt.Seconds()*math.Sqrt(2*b*loss/3) +
		timeout.Seconds()*min(1, 3*math.Sqrt(3*b*loss/8))*loss*(1+32*loss*loss)
	return float64(mss) / waits
}
