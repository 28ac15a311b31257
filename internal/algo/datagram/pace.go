package datagram

import "time"

const (
	// backoffMost is the longest time between two datagrams, in seconds: RFC 5348's t_mbi.
	backoffMost = 64
	// firstWindow is how many bytes go out in the first round trip: W_init of section 4.2.
	firstWindow = 4380
	// ReportInterval is how often a child reports.
	ReportInterval = 100 * time.Millisecond
	// leastRoundTrip keeps the equation finite on a path without delay.
	leastRoundTrip = 100 * time.Microsecond
	// burst is how many datagrams may leave at once at any rate, parity not counted.
	burst = 8
	// recent is the number of latest reports whose receive rates are kept: X_recv_set of section 4.3.
	recent = 3
)

// Feedback is what a child's report says.
type Feedback struct {
	RoundTrip      time.Duration // from a datagram's departure to the report of it, less the time for which the child held it
	BytesPerSecond float64       // the rate at which the child received
	LossEventRate  float64
}

// Pace says what a parent may send to one child: it is the sender of RFC 5348, section 4. Where
// that would wait, an agent drops the datagram: if it may not leave now it would be late.
type Pace struct {
	most      float64 // bytes per second; zero means no limit
	burst     float64 // how many datagrams may leave at once at any rate
	size      float64 // of datagrams, the mean
	rate      float64
	roundTrip time.Duration
	received  [recent]float64
	heard     time.Time // when the last report came, or when silence last halved the rate
	raised    time.Time // when the rate was last doubled
	lossy     bool      // there was a loss event

	credit   float64
	credited time.Time
	sent     float64 // bytes since the last report
}

// NewPace returns the pace of a link with a round trip, which sends at most so many bytes per second; zero means no limit. So many datagrams
// of parity may leave at once with others: a window's come together, and where one is repaired there are never more.
func NewPace(roundTrip time.Duration, most float64, parity int, now time.Time) *Pace {
	p := &Pace{most: most, burst: float64(burst + parity), size: 1, roundTrip: max(roundTrip, leastRoundTrip), heard: now, raised: now, credited: now}
	p.set(p.first())
	p.credit = p.depth()
	return p
}

func (p *Pace) first() float64 { return firstWindow / p.roundTrip.Seconds() }

func (p *Pace) set(rate float64) {
	p.rate = max(rate, p.size/backoffMost)
	if p.most > 0 {
		p.rate = min(p.rate, p.most)
	}
}

// Rate returns how many bytes per second may be sent.
func (p *Pace) Rate() float64 { return p.rate }

// RoundTrip returns the link's round trip, smoothed.
func (p *Pace) RoundTrip() time.Duration { return p.roundTrip }

// Report takes a child's report: section 4.3.
func (p *Pace) Report(f Feedback, now time.Time) {
	p.measure(f.RoundTrip)
	p.remember(f.BytesPerSecond, now)
	limit := 2 * max(p.received[0], p.received[1], p.received[2])
	switch {
	case f.LossEventRate > 0:
		p.lossy = true
		p.set(min(Throughput(p.size, p.roundTrip, f.LossEventRate), limit))
	case now.Sub(p.raised) >= p.roundTrip:
		p.set(max(min(2*p.rate, limit), p.first()))
		p.raised = now
	}
	p.heard, p.sent = now, 0
}

// ReportNothing takes a report by which nothing has come since the last one. A receiver of RFC 5348 sends none then (section 6.2), so it says
// nothing of the rate: taken for one of nothing received, three of them would leave a datagram in 64 seconds. What was sent is waited for as
// if nobody had reported; while nothing was, nothing is missing.
func (p *Pace) ReportNothing(now time.Time) {
	if p.sent == 0 {
		p.heard = now
	}
}

func (p *Pace) measure(sample time.Duration) {
	if sample = max(sample, leastRoundTrip); p.received == [recent]float64{} {
		p.roundTrip = sample
	}
	p.roundTrip = (9*p.roundTrip + sample) / 10
}

// remember notes the rate that came through. While the stream itself sends less than it may, this
// says nothing about the path: the earlier rates stay.
func (p *Pace) remember(rate float64, now time.Time) {
	limited := p.sent < 0.9*p.rate*now.Sub(p.heard).Seconds()
	if limited {
		best := max(p.received[0], p.received[1], p.received[2], rate)
		p.received = [recent]float64{best, best, best}
		return
	}
	p.received = [recent]float64{rate, p.received[0], p.received[1]}
}

// Take reports whether a datagram may leave now, and counts it if so.
func (p *Pace) Take(size int, now time.Time) bool {
	p.fill(now)
	if p.credit < float64(size) {
		return false
	}
	p.credit -= float64(size)
	p.sent += float64(size)
	p.size += (float64(size) - p.size) / 16
	if p.size < float64(size)/4 { // the first one
		p.size = float64(size)
	}
	return true
}

// Wait returns how long it takes until a datagram of a size may leave.
func (p *Pace) Wait(size int, now time.Time) time.Duration {
	p.fill(now)
	missing := float64(size) - p.credit
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/p.rate*float64(time.Second)) + 1 // a part of a nanosecond counts as one
}

// fill adds the credit for the time that has passed, up to that of a round trip (section 4.6).
func (p *Pace) fill(now time.Time) {
	p.silence(now)
	p.credit = min(p.credit+p.rate*now.Sub(p.credited).Seconds(), p.depth())
	p.credited = now
}

func (p *Pace) depth() float64 {
	return max(p.rate*max(p.roundTrip, ReportInterval/10).Seconds(), p.burst*max(p.size, firstWindow/4))
}

// silence halves the rate whenever nothing was heard for some time although something was sent: the
// nofeedback timer of section 4.4.
func (p *Pace) silence(now time.Time) {
	patience := max(4*p.roundTrip, 4*ReportInterval, time.Duration(2*p.size/p.rate*float64(time.Second)))
	if p.sent > 0 && now.Sub(p.heard) > patience {
		p.set(p.rate / 2)
		p.heard, p.sent = now, 0
	}
}
