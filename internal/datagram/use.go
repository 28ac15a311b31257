package datagram

import (
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Use says how a link was used.
type Use struct {
	// Sent datagrams have left, with Bytes of payload. Held ones were not sent: the pace did not
	// allow it, the address was not known, or there was no room.
	Sent, Bytes, Held uint64
	// Last is when the last datagram left; zero if none did.
	Last time.Time
	// Lost is what did not arrive, according to the child.
	Lost uint64
	// Rate is how many bytes per second may be sent now, or could be when the link ended.
	Rate float64
	// Trips is how often the breaker has tripped; Open reports whether it stops the link now.
	Trips int
	Open  bool
}

// Add adds the use of an earlier link.
func (u *Use) Add(earlier Use) {
	u.Sent += earlier.Sent
	u.Bytes += earlier.Bytes
	u.Held += earlier.Held
	u.Lost += earlier.Lost
	u.Trips += earlier.Trips
	if u.Last.IsZero() {
		u.Last = earlier.Last
	}
	if u.Rate == 0 { // there is no link now
		u.Rate = earlier.Rate
	}
}

// Message returns the use as the managers are told it.
func (u Use) Message() *groupv1.DatagramUse {
	return &groupv1.DatagramUse{
		Sent: u.Sent, Held: u.Held, Lost: u.Lost, AllowedBytesPerSecond: uint64(u.Rate), Trips: uint32(u.Trips), Stopped: u.Open,
	}
}
