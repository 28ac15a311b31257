package datagram_test

import (
	"math"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
)

// parent is a link seen from its parent.
type parent struct {
	*testing.T
	pace *algo.Pace
	now  time.Time
}

func newParent(t *testing.T, most float64) *parent {
	return &parent{T: t, pace: algo.NewPace(rtt, most, 0, start), now: start}
}

// send sends as much as it may for a while, and returns how many bytes that was.
func (p *parent) send(span time.Duration) (bytes float64) {
	for end := p.now.Add(span); p.now.Before(end); p.now = p.now.Add(time.Millisecond) {
		for p.pace.Take(size, p.now) {
			bytes += size
		}
	}
	return bytes
}

func (p *parent) report(received, lossEventRate float64) {
	p.pace.Report(algo.Feedback{RoundTrip: rtt, BytesPerSecond: received, LossEventRate: lossEventRate}, p.now)
}

// round sends for 100 ms and reports that everything came.
func (p *parent) round(lossEventRate float64) {
	p.report(p.send(100*time.Millisecond)/0.1, lossEventRate)
}

func (p *parent) wantRate(want, tolerance float64) {
	p.Helper()
	if got := p.pace.Rate(); math.Abs(got-want) > tolerance*want {
		p.Errorf("the rate is %.0f bytes/s: want %.0f", got, want)
	}
}

// RFC 5348, section 4.2: the first round trip carries W_init, 4380 bytes. Without loss the rate
// doubles, but never to more than twice what came through (section 4.3).
func TestSlowStart(t *testing.T) {
	p := newParent(t, 0)
	p.wantRate(4380/rtt.Seconds(), 0.01)
	for range 5 {
		before := p.pace.Rate()
		p.round(0)
		if got := p.pace.Rate() / before; got < 1.5 || got > 2.01 {
			t.Errorf("the rate grew by %.2f", got)
		}
	}
	p.send(100 * time.Millisecond)
	p.report(500_000, 0)
	for range 3 {
		p.send(100 * time.Millisecond)
		p.report(500_000, 0)
	}
	p.wantRate(1_000_000, 0.01)
}

// With loss, the rate is what TCP would get.
func TestRateIsTCPs(t *testing.T) {
	for _, loss := range []float64{0.001, 0.01, 0.05} {
		p := newParent(t, 0)
		for range 4 {
			p.round(0)
		}
		for range 30 {
			p.round(loss)
		}
		p.wantRate(algo.Throughput(size, rtt, loss), 0.1)
	}
}

// Section 4.4: without reports the rate is halved, again and again.
func TestSilenceSlowsDown(t *testing.T) {
	p := newParent(t, 0)
	for range 5 {
		p.round(0)
	}
	before := p.pace.Rate()
	p.send(time.Second)
	if got := p.pace.Rate(); got > before/4 {
		t.Errorf("after a second of silence it sends %.0f bytes/s, and %.0f before", got, before)
	}
	p.send(time.Minute)
	if got := p.pace.Rate(); got > 5*size || got <= 0 {
		t.Errorf("after a minute of silence it sends %.0f bytes/s", got)
	}
}

// A stream that has paused is not punished for the silence.
func TestPauseIsNoSilence(t *testing.T) {
	p := newParent(t, 0)
	for range 5 {
		p.round(0)
	}
	before := p.pace.Rate()
	p.now = p.now.Add(time.Minute)
	if !p.pace.Take(size, p.now) {
		t.Error("nothing may be sent after a pause")
	}
	p.wantRate(before, 0.01)
}

func TestRateIsLimited(t *testing.T) {
	p := newParent(t, 50_000)
	for range 20 {
		p.round(0)
	}
	p.wantRate(50_000, 0.001)
	var bytes float64
	for range 100 {
		sent := p.send(100 * time.Millisecond)
		bytes += sent
		p.report(sent/0.1, 0)
	}
	if got := bytes / 10; math.Abs(got-50_000) > 5_000 {
		t.Errorf("%.0f bytes/s were sent", got)
	}
}

func TestWaitIsUntilTake(t *testing.T) {
	p := newParent(t, 0)
	for p.pace.Take(size, p.now) {
	}
	wait := p.pace.Wait(size, p.now)
	if p.pace.Take(size, p.now.Add(wait/2)) || !p.pace.Take(size, p.now.Add(wait+time.Millisecond)) {
		t.Errorf("to wait for %v is wrong", wait)
	}
}

// The queue at a bottleneck fills, overflows and drains: TFRC uses most of the link, and loses little.
func TestBottleneckIsUsed(t *testing.T) {
	const capacity, queue = 250_000.0, 12_500.0
	p, c := newParent(t, 0), &child{T: t}
	var queued, carried, sent float64
	number := uint64(0)
	next := start.Add(100 * time.Millisecond)
	const span = 120 * time.Second
	for ; p.now.Before(start.Add(span)); p.now = p.now.Add(time.Millisecond) {
		queued = max(0, queued-capacity/1000)
		for p.pace.Take(size, p.now) {
			sent += size
			if number++; queued+size <= queue {
				queued, carried = queued+size, carried+size
				c.losses.Arrived(number, size, p.pace.RoundTrip(), p.now)
			}
		}
		if !p.now.Before(next) {
			next = next.Add(100 * time.Millisecond)
			p.pace.Report(algo.Feedback{
				RoundTrip: rtt + time.Duration(queued/capacity*float64(time.Second)), BytesPerSecond: c.losses.Rate(p.now), LossEventRate: c.losses.EventRate(),
			}, p.now)
		}
	}
	if used := carried / capacity / span.Seconds(); used < 0.75 {
		t.Errorf("%.0f %% of the bottleneck are used", 100*used)
	}
	if lost := 1 - carried/sent; lost > 0.05 {
		t.Errorf("%.1f %% are lost", 100*lost)
	}
}

// The parity of a window comes at once, and leaves at once, however little its link may carry in a round trip; so does what else was
// allowed to.
func TestParityOfAWindowLeavesAtOnce(t *testing.T) {
	for _, parity := range []int{0, 2, 10, 128} {
		pace := algo.NewPace(rtt, 50_000, parity, start)
		pace.Take(size, start) // it shows how large they are
		left, later := 0, start.Add(time.Minute)
		for left <= 1000 && pace.Take(size, later) {
			left++
		}
		if want := 8 + parity; left != want {
			t.Errorf("with %d of parity, %d leave at once: want %d", parity, left, want)
		}
	}
}

// RFC 5348, section 6.2: a receiver to which nothing has come since its last report sends none. Reports that say so do not count as
// such of nothing received: half a second in which a path carries nothing costs about as much. A stream that rests loses nothing by them.
func TestNothingReceivedIsNoRate(t *testing.T) {
	p := newParent(t, 200e3)
	for range 20 {
		p.round(1e-4)
	}
	before := p.pace.Rate()
	for range 5 {
		p.send(100 * time.Millisecond)
		p.pace.ReportNothing(p.now)
	}
	if got := p.pace.Rate(); got > before/2 || got < before/8 {
		t.Errorf("after half a second without anything the rate is %.0f bytes/s of %.0f", got, before)
	}
	for range 10 {
		p.round(1e-4)
	}
	p.wantRate(before, 0.1)

	for range 50 { // nothing is sent
		p.now = p.now.Add(100 * time.Millisecond)
		p.pace.ReportNothing(p.now)
	}
	p.send(100 * time.Millisecond)
	p.wantRate(before, 0.1)
}
