package datagram

import (
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Use is what a link was used for.
type Use struct {
	// Sent left, Bytes of payload with it. Held were not sent: the pace did not allow it, or
	// it was not known where to, or there was no room.
	Sent, Bytes, Held uint64
	// Last is when the last of it left; zero if nothing did.
	Last time.Time
	// Lost is what the child says that did not come.
	Lost uint64
	// Rate is how many bytes per second may be sent now, or could be when the link ended.
	Rate float64
	// Trips is how often the breaker has tripped; Open reports whether it stops the link now.
	Trips int
	Open  bool
}

// Add adds what an earlier link was used for.
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

// Message returns it as the managers are told.
func (u Use) Message() *groupv1.DatagramUse {
	return &groupv1.DatagramUse{
		Sent: u.Sent, Held: u.Held, Lost: u.Lost, AllowedBytesPerSecond: uint64(u.Rate), Trips: uint32(u.Trips), Stopped: u.Open,
	}
}
