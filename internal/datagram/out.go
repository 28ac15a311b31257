package datagram

import (
	"net/netip"
	"sync"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

// headers is how many bytes IP and UDP add: the network carries them, so they count.
const headers = 28

// Size returns how many bytes the network carries of a datagram with such a payload.
func Size(payload int) int { return payload + wire.Overhead + headers }

// Out is a link seen from the parent: what leaves is sealed, keeps to the pace, and stops
// when the breaker trips.
type Out struct {
	mu       sync.Mutex
	box      *wire.Box
	reports  *wire.Box
	epoch    time.Time      // of departures
	host     netip.Addr     // of the child; invalid if its port is known, too
	to       netip.AddrPort // the child's address; invalid until that is known
	next     uint64
	reported uint64 // the number after that of the last report
	received uint64 // according to that report
	pace     *algo.Pace
	breaker  algo.Breaker
	use      Use
}

// NewOut returns the parent's side of a link with a secret and a first guess of its round
// trip, to a child on a host, whose reports will show its port. The parity of a code leaves as it comes, a
// window's at once: an agent has no time to wait.
func NewOut(secret wire.Secret, roundTrip time.Duration, code Code, host netip.Addr) *Out {
	now := time.Now()
	return &Out{
		box: secret.Down(), reports: secret.Up(), epoch: now, host: host.Unmap(),
		pace: algo.NewPace(roundTrip, 0, code.Parity, now),
	}
}

// NewOutTo returns the sender's side of a link, to a child whose port is known. It sends at most so many bytes per second;
// zero is no limit. A sender waits until a datagram may leave, be it parity or not.
func NewOutTo(secret wire.Secret, roundTrip time.Duration, most uint64, to netip.AddrPort) *Out {
	now := time.Now()
	return &Out{
		box: secret.Down(), reports: secret.Up(), epoch: now, to: to,
		pace: algo.NewPace(roundTrip, float64(most), 0, now),
	}
}

// Take takes a child's report. Its source address shows where the child is, if that was not known before. It must be
// the host that opened the link: another host might not want what is sent
// there. Reports that later ones have overtaken are dropped.
func (o *Out) Take(whole []byte, from netip.AddrPort, now time.Time) {
	header, payload, err := o.reports.Open(whole)
	if err != nil || header.Kind != wire.Feedback {
		return
	}
	report, err := wire.ParseReport(payload)
	o.mu.Lock()
	defer o.mu.Unlock()
	moved := o.host.IsValid() && from.Addr().Unmap() != o.host
	if err != nil || moved || header.Number < o.reported {
		return
	}
	o.reported = header.Number + 1
	if o.host.IsValid() {
		o.to = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	}
	o.hear(report, now)
}

// hear has the pace follow what came. It is called with o.mu held.
func (o *Out) hear(r wire.Report, now time.Time) {
	before := o.received
	o.use.Lost, o.received = r.Lost, r.Received
	switch {
	case r.Received == before:
		o.pace.ReportNothing(now)
		return
	case r.Number >= o.next:
		return // the report says nothing about what was sent
	}
	sinceDeparture := now.Sub(o.epoch) - time.Duration(r.Departure)*time.Microsecond
	o.pace.Report(algo.Feedback{
		RoundTrip:      sinceDeparture - time.Duration(r.HeldFor)*time.Microsecond,
		BytesPerSecond: float64(r.BytesPerSecond), LossEventRate: float64(r.LossEventRate) / wire.Certain,
	}, now)
}

// Check reports whether the breaker trips now. It is to be called now and then, whether
// the child reports or not.
func (o *Out) Check(now time.Time) (trips bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.breaker.Measure(o.next, o.received, o.pace.RoundTrip(), now)
}

// IsReady reports whether the child's address is known.
func (o *Out) IsReady() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.IsValid()
}

// Add seals a datagram into a batch, which counts it when it is flushed. If it may not be sent now it is held, which means that it is never sent.
func (o *Out) Add(batch *Batch, h wire.Header, payload []byte, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := Size(len(payload))
	if !o.to.IsValid() || o.breaker.IsOpen(now) || !o.pace.Take(size, now) {
		o.use.Held++
		return
	}
	h.Number, h.Departure = o.next, uint64(now.Sub(o.epoch).Microseconds())
	h.RoundTrip = uint32(min(o.pace.RoundTrip().Microseconds(), 1<<32-1))
	o.next++
	batch.add(o, o.to, h, payload)
}

// Wait returns how long it takes until a datagram with such a payload may leave.
func (o *Out) Wait(payload int, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pace.Wait(Size(payload), now)
}

// IsOpen reports whether the breaker stops the link.
func (o *Out) IsOpen(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.breaker.IsOpen(now)
}

// Rate returns how many bytes per second may be sent.
func (o *Out) Rate() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pace.Rate()
}

// left notes that datagrams left.
func (o *Out) left(run udp.Run, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := uint64(run.Count())
	o.use.Sent += count
	o.use.Bytes += uint64(len(run.Bytes)) - count*wire.Overhead
	o.use.Last = now
}

// unsent notes that datagrams found no room in the socket.
func (o *Out) unsent(run udp.Run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.use.Held += uint64(run.Count())
}

// Use returns the use of the link so far.
func (o *Out) Use() Use {
	o.mu.Lock()
	defer o.mu.Unlock()
	use := o.use
	use.Rate, use.Trips, use.Open = o.pace.Rate(), o.breaker.Trips(), o.breaker.IsOpen(time.Now())
	return use
}
