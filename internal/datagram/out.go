package datagram

import (
	"net/netip"
	"sync"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

// headers is how many bytes IP and UDP add: the network carries them, so they count.
const headers = 28

// Out is a link seen from the parent: what leaves is sealed, within the pace, and while
// the breaker lets it.
type Out struct {
	mu      sync.Mutex
	box     *wire.Box
	punches *wire.Box
	epoch   time.Time // of departures
	to      netip.AddrPort
	punched uint64 // the number after that of the last punch
	next    uint64
	pace    *algo.Pace
	breaker algo.Breaker
	use     Use
}

// Use is what a link was used for.
type Use struct {
	// Sent left, Bytes of payload with it. Held were not sent: the pace did not allow it, or
	// it was not known where to, or there was no room.
	Sent, Bytes, Held uint64
	// Lost is what the child says that did not come.
	Lost uint64
	// Rate is how many bytes per second may be sent now.
	Rate float64
	// Trips is how often the breaker has tripped; Open tells whether it stops the link now.
	Trips int
	Open  bool
}

// NewOut returns the parent's side of a link with a secret and a first guess of its round
// trip. It sends at most so many bytes per second; zero is no limit.
func NewOut(secret wire.Secret, roundTrip time.Duration, most uint64) *Out {
	now := time.Now()
	return &Out{box: secret.Down(), punches: secret.Up(), epoch: now, pace: algo.NewPace(roundTrip, float64(most), now)}
}

// SendTo says where the child is, when that is known without a punch.
func (o *Out) SendTo(to netip.AddrPort) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = to
}

// Punched takes a punch, which says where the child is: on the host that opened the link,
// for others might not want what is sent to them. The latest punch counts.
func (o *Out) Punched(whole []byte, from netip.AddrPort, host netip.Addr) {
	header, _, err := o.punches.Open(whole)
	if err != nil || header.Kind != wire.Punch || from.Addr().Unmap() != host.Unmap() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if header.Number >= o.punched {
		o.punched, o.to = header.Number+1, netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	}
}

// IsReady reports whether it is known where the child is.
func (o *Out) IsReady() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.IsValid()
}

// Add seals a datagram into a batch, unless it may not be sent now: then it is held, and
// will never be sent.
func (o *Out) Add(batch *Batch, h wire.Header, payload []byte, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := len(payload) + wire.Overhead + headers
	if !o.to.IsValid() || o.breaker.IsOpen(now) || !o.pace.Take(size, now) {
		o.use.Held++
		return
	}
	h.Number, h.Departure = o.next, uint64(now.Sub(o.epoch).Microseconds())
	h.RoundTrip = uint32(min(o.pace.RoundTrip().Microseconds(), 1<<32-1))
	o.next++
	o.use.Sent++
	o.use.Bytes += uint64(len(payload))
	batch.add(o, o.to, h, payload)
}

// Wait returns how long it takes until a datagram may leave.
func (o *Out) Wait(payload int, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pace.Wait(payload+wire.Overhead+headers, now)
}

// unsent notes that a datagram found no room in the socket.
func (o *Out) unsent(payload int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.use.Sent--
	o.use.Bytes -= uint64(payload)
	o.use.Held++
}

// Report takes what the child reports, and returns whether the breaker trips.
func (o *Out) Report(r wire.Report, now time.Time) (trips bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.use.Lost = r.Lost
	trips = o.breaker.Measure(o.next, r.Received, o.pace.RoundTrip(), now)
	if r.Received == 0 || r.Number >= o.next {
		return trips // it says nothing of what was sent
	}
	sinceDeparture := now.Sub(o.epoch) - time.Duration(r.Departure)*time.Microsecond
	o.pace.Report(algo.Feedback{
		RoundTrip:      sinceDeparture - time.Duration(r.HeldFor)*time.Microsecond,
		BytesPerSecond: float64(r.BytesPerSecond), LossEventRate: float64(r.LossEventRate) / wire.Certain,
	}, now)
	return trips
}

// Use returns what the link was used for.
func (o *Out) Use() Use {
	o.mu.Lock()
	defer o.mu.Unlock()
	use := o.use
	use.Rate, use.Trips, use.Open = o.pace.Rate(), o.breaker.Trips(), o.breaker.IsOpen(time.Now())
	return use
}
