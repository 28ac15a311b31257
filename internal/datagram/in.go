package datagram

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

// ErrRepeated says that the same datagram of the link has come before.
var ErrRepeated = errors.New("datagram came before")

// In is a link seen from the child.
type In struct {
	mu       sync.Mutex
	box      *wire.Box
	reports  *wire.Box
	reported uint64         // how many reports were made
	dialled  bool           // the parent's address was known from the beginning
	parent   netip.AddrPort // where they go; invalid before that is known
	next     uint64         // the number after the highest that came
	losses   algo.Losses
	last     wire.Header
	lastAt   time.Time
}

// NewIn returns the child's side of a link with a secret. The parent's address is known if
// the parent was dialled; otherwise what comes from it shows the address, which changes where a network translates it anew.
func NewIn(secret wire.Secret, parent netip.AddrPort) *In {
	return &In{box: secret.Down(), reports: secret.Up(), parent: parent, dialled: parent.IsValid()}
}

// Open opens what came, in place.
func (in *In) Open(whole []byte, from netip.AddrPort, now time.Time) (wire.Header, []byte, error) {
	h, payload, err := in.box.Open(whole)
	if err != nil {
		return h, nil, err
	}
	if h.Kind == wire.Feedback {
		return h, nil, wire.ErrProtocol
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.losses.Arrived(h.Number, len(whole)+headers, time.Duration(h.RoundTrip)*time.Microsecond, now) {
		return h, nil, ErrRepeated
	}
	in.last, in.lastAt = h, now
	if h.Number >= in.next {
		in.next = h.Number + 1
		if !in.dialled {
			in.parent = from
		}
	}
	return h, payload, nil
}

// Report returns a datagram that tells the parent what came, and where this child is, and
// the address to send it to. There is none before the parent's address is known.
func (in *In) Report(now time.Time) (whole []byte, to netip.AddrPort, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := wire.Report{
		Number: in.last.Number, Departure: in.last.Departure,
		Received: in.losses.Received(), Lost: in.losses.Lost(), LossEventRate: uint64(in.losses.EventRate() * wire.Certain),
	}
	if r.Received > 0 {
		r.HeldFor = uint64(now.Sub(in.lastAt).Microseconds())
		r.BytesPerSecond = uint64(in.losses.Rate(now))
	}
	in.reported++
	whole = in.reports.Seal(nil, wire.Header{Number: in.reported, Kind: wire.Feedback}, r.Append(nil))
	return whole, in.parent, in.parent.IsValid()
}
