package link

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Shape is how one direction of a link treats packets. The zero Shape is a
// perfect wire: no time, no limit, no loss.
type Shape struct {
	Rate  Rate          // serialization clock; 0 takes no time
	Delay time.Duration // one-way propagation
	Queue Queue         // drop-tail limit in front of the clock; zero has no limit
	MTU   Bytes         // of the devices at both ends, fixed at start; 0 is 1500

	Loss      float64 // probability that a packet is lost on the wire
	Burst     Burst   // losses that come in runs
	Duplicate float64 // probability that a packet arrives twice
	Corrupt   float64 // probability that one bit behind the IP header is flipped
	Reorder   Reorder // packets that are held back and overtaken

	BlackHole Bytes      // packets bigger than this vanish without notice; 0 lets all pass
	NoUDP     netip.Addr // so does UDP from this address, as at a firewall; the zero Addr lets all pass
	Cut       bool       // the cable is cut: everything is lost, including what was in flight
}

// Queue limits what waits in front of the clock. Either limit may be zero,
// which is none; the packet being sent counts.
type Queue struct {
	Packets int
	Bytes   Bytes
}

// Packets is a queue limited in packets.
func Packets(n int) Queue { return Queue{Packets: n} }

// Size is a queue limited in bytes.
func Size(n Bytes) Queue { return Queue{Bytes: n} }

func (q Queue) admits(packets int, held, size Bytes) bool {
	if q.Packets > 0 && packets+1 > q.Packets {
		return false
	}
	return q.Bytes == 0 || held+size <= q.Bytes
}

// Burst is the Gilbert model: a good state that loses nothing and a bad one
// that loses everything.
type Burst struct {
	Start  float64 // probability per packet that a burst begins with it
	Length float64 // mean packets lost in a burst, at least 1
}

// Reorder holds packets back so that later ones overtake them.
type Reorder struct {
	Probability float64
	By          time.Duration // extra time on the wire
}

// Validate reports everything that is wrong with s at once.
func (s Shape) Validate() error {
	var wrong []error
	probability := func(name string, p float64) {
		if p < 0 || p > 1 {
			wrong = append(wrong, fmt.Errorf("%s %v is no probability", name, p))
		}
	}
	probability("loss", s.Loss)
	probability("burst start", s.Burst.Start)
	probability("duplicate", s.Duplicate)
	probability("corrupt", s.Corrupt)
	probability("reorder", s.Reorder.Probability)
	if s.Burst.Start > 0 && s.Burst.Length < 1 {
		wrong = append(wrong, fmt.Errorf("burst length %v is less than one packet", s.Burst.Length))
	}
	if s.Rate < 0 || s.Delay < 0 || s.Reorder.By < 0 || s.MTU < 0 || s.BlackHole < 0 || s.Queue.Packets < 0 || s.Queue.Bytes < 0 {
		wrong = append(wrong, errors.New("a rate, delay or limit is negative"))
	}
	return errors.Join(wrong...)
}
