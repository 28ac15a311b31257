package sdk

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// MaxDatagram is how many bytes one datagram of a stream carries at most.
const MaxDatagram = wiredatagram.MaxPayload

// DatagramOptions say how a stream goes in datagrams.
type DatagramOptions struct {
	// Fresh is how old a datagram may be when a member gets it, to within half of a round trip to the managers, by whose clock it goes; zero is
	// no bound.
	Fresh time.Duration
	// For every ParityData datagrams, ParityShards more are sent: any that many of all these may be lost on each link. Both
	// zero is no parity.
	ParityData, ParityShards int
}

// DatagramCounts is a member's account of a stream in datagrams.
type DatagramCounts struct {
	// Received were handed on; Recovered of these had been lost, and were computed from parity.
	Received  uint64 `json:"received"`
	Recovered uint64 `json:"recovered"`
	// Late were older than the bound when they came, and were not handed on.
	Late       uint64 `json:"late"`
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"`
}

// DatagramUse is what one link carried of a stream in datagrams, parity included.
type DatagramUse struct {
	// Held were not sent, as the link's rate did not allow it; Lost were sent and did not come.
	Sent, Held, Lost uint64
	// AllowedBytesPerSecond is how fast congestion control lets the link be used.
	AllowedBytesPerSecond uint64
	// Trips is how often its circuit breaker has tripped; Stopped is whether that stops the link now.
	Trips   int
	Stopped bool
}

func newDatagramCounts(m *groupv1.DatagramCounts) *DatagramCounts {
	if m == nil {
		return nil
	}
	return &DatagramCounts{
		Received: m.GetReceived(), Recovered: m.GetRecovered(), Late: m.GetLate(), Lost: m.GetLost(),
		Duplicated: m.GetDuplicated(), Reordered: m.GetReordered(),
	}
}

func (c *DatagramCounts) message() *groupv1.DatagramCounts {
	if c == nil {
		return nil
	}
	return &groupv1.DatagramCounts{
		Received: c.Received, Recovered: c.Recovered, Late: c.Late, Lost: c.Lost, Duplicated: c.Duplicated, Reordered: c.Reordered,
	}
}

func newDatagramUse(m *groupv1.DatagramUse) *DatagramUse {
	if m == nil {
		return nil
	}
	return &DatagramUse{
		Sent: m.GetSent(), Held: m.GetHeld(), Lost: m.GetLost(), AllowedBytesPerSecond: m.GetAllowedBytesPerSecond(),
		Trips: int(m.GetTrips()), Stopped: m.GetStopped(),
	}
}

// SendDatagrams delivers what a reader gives, each Read as one datagram of at most MaxDatagram bytes, to the members of the session's
// group that receive. They get what is fresh: what is lost on the way is counted, and not sent again. The reader is read no faster
// than the way to the first agent allows, and while there is none no faster than it ever did; without a bound of
// age it is not read while there is no agent. A Read that blocks when the delivery ends goes on until the reader is closed: before that,
// the caller must not use the reader, even if Wait has returned.
//
// ctx only bounds the beginning. The stream goes on without it, until the reader ends or Outgoing.Cancel is called.
func (s *Session) SendDatagrams(ctx context.Context, from io.Reader, options SendOptions) (*Outgoing, error) {
	code := datagram.Code{Data: options.Datagrams.ParityData, Parity: options.Datagrams.ParityShards}
	if err := code.Validate(); err != nil {
		return nil, &Error{Code: InvalidArgument, Message: err.Error(), cause: err}
	}
	if options.Datagrams.Fresh < 0 {
		return nil, &Error{Code: InvalidArgument, Message: fmt.Sprintf("datagrams cannot be %v old: want a time, or zero for no bound", options.Datagrams.Fresh)}
	}
	spec, err := options.streamSpec(from)
	if err != nil {
		return nil, err
	}
	spec.Datagrams = &groupv1.DatagramSpec{
		Fresh: span(options.Datagrams.Fresh), ParityData: uint32(code.Data), ParityShards: uint32(code.Parity),
	}
	out, err := s.begin(ctx, spec)
	if err != nil {
		return nil, err
	}
	sender := &datagramSender{out: out, linked: make(chan struct{}), before: make(map[string]datagram.Use), given: make(chan []byte), fresh: options.Datagrams.Fresh}
	if !code.IsNone() {
		sender.encoder = datagram.NewEncoder(code, paritySpan(options.Datagrams.Fresh))
	}
	out.run(func(ctx context.Context) { sender.run(ctx, from) })
	return out, nil
}
