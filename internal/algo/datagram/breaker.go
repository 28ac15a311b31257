package datagram

import "time"

// The breaker's measures. RFC 8084, section 4, asks for intervals that are long compared to the
// round trip, a trigger that is not transient, and a drastic reaction.
const (
	// breakerInterval is the least time over which loss is measured.
	breakerInterval = time.Second
	// breakerRoundTrips is the least number of round trips in an interval.
	breakerRoundTrips = 10
	// breakerLoss is the share of datagrams that may be lost.
	breakerLoss = 0.2
	// breakerRow is how many intervals in a row have to be bad.
	breakerRow = 5
	// breakerFirst is how long nothing is sent the first time, and breakerLast how long at most.
	breakerFirst = 10 * time.Second
	breakerLast  = 5 * time.Minute
	// breakerFew is how many datagrams an interval needs to tell anything.
	breakerFew = 5
)

// Breaker stops a link on which too much is lost for too long even though the pace has followed:
// RFC 8084. Where TFRC works it has nothing to do. It is for paths that carry nothing, neighbours
// that do not report, and whatever the pace gets wrong.
type Breaker struct {
	begun          time.Time // of the interval
	sent, received uint64    // when the interval began
	bad, good      int       // intervals in a row
	pause          time.Duration
	until          time.Time // nothing is sent before it
	trips          int
}

// Measure notes how many datagrams were sent over the link in all, and how many of them the child
// says that it received. It reports whether the breaker trips.
func (b *Breaker) Measure(sent, received uint64, roundTrip time.Duration, now time.Time) (trips bool) {
	switch {
	case b.begun.IsZero():
		b.begin(sent, received, now)
		return false
	case now.Sub(b.begun) < max(breakerInterval, breakerRoundTrips*roundTrip), sent-b.sent < breakerFew:
		return false
	}
	came := received - min(received, b.received)
	isBad := float64(came) < (1-breakerLoss)*float64(sent-b.sent)
	b.begin(sent, received, now)
	return b.judge(isBad, now)
}

func (b *Breaker) begin(sent, received uint64, now time.Time) {
	b.begun, b.sent, b.received = now, sent, received
}

func (b *Breaker) judge(isBad bool, now time.Time) (trips bool) {
	if !isBad {
		b.bad = 0
		if b.good++; b.good >= breakerRow {
			b.pause = 0
		}
		return false
	}
	b.good = 0
	if b.bad++; b.bad < breakerRow {
		return false
	}
	b.pause = min(max(2*b.pause, breakerFirst), breakerLast)
	b.bad, b.until = 0, now.Add(b.pause)
	b.trips++
	return true
}

// IsOpen reports whether nothing may be sent.
func (b *Breaker) IsOpen(now time.Time) bool { return now.Before(b.until) }

// Trips returns how often the breaker has tripped.
func (b *Breaker) Trips() int { return b.trips }
