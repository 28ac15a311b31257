package datagram

import (
	"errors"
	"sync"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

// ErrRepeated says that a datagram of the link came before.
var ErrRepeated = errors.New("datagram came before")

// In is a link seen from the child.
type In struct {
	mu      sync.Mutex
	box     *wire.Box
	punches *wire.Box
	punched uint64
	losses  algo.Losses
	last    wire.Header
	lastAt  time.Time
}

// NewIn returns the child's side of a link with a secret.
func NewIn(secret wire.Secret) *In { return &In{box: secret.Down(), punches: secret.Up()} }

// Open opens what came, in its own memory.
func (in *In) Open(whole []byte, now time.Time) (wire.Header, []byte, error) {
	h, payload, err := in.box.Open(whole)
	if err != nil {
		return h, nil, err
	}
	if h.Kind == wire.Punch {
		return h, nil, wire.ErrProtocol
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.losses.Arrived(h.Number, len(whole)+headers, time.Duration(h.RoundTrip)*time.Microsecond, now) {
		return h, nil, ErrRepeated
	}
	in.last, in.lastAt = h, now
	return h, payload, nil
}

// Report returns what the parent is to know.
func (in *In) Report(now time.Time) wire.Report {
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
	return r
}

// Punch appends a datagram that tells the parent where this child is.
func (in *In) Punch(to []byte) []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.punched++
	return in.punches.Seal(to, wire.Header{Number: in.punched, Kind: wire.Punch}, nil)
}
