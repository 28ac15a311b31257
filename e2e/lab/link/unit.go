package link

import (
	"fmt"
	"time"
)

// Rate is a speed in bits per second.
type Rate int64

// Decimal rates, as networks are labelled.
const (
	Kbit Rate = 1000
	Mbit Rate = 1000 * Kbit
	Gbit Rate = 1000 * Mbit
)

// Time is how long size bytes occupy a line of this rate. A rate of zero is
// a line that takes no time.
func (r Rate) Time(size Bytes) time.Duration {
	if r <= 0 {
		return 0
	}
	return time.Duration(int64(size) * 8 * int64(time.Second) / int64(r))
}

func (r Rate) String() string {
	switch {
	case r >= Gbit:
		return fmt.Sprintf("%g Gbit/s", float64(r)/float64(Gbit))
	case r >= Mbit:
		return fmt.Sprintf("%g Mbit/s", float64(r)/float64(Mbit))
	default:
		return fmt.Sprintf("%g kbit/s", float64(r)/float64(Kbit))
	}
}

// Bytes is an amount of data.
type Bytes int64

// Binary sizes, as buffers are labelled.
const (
	KiB Bytes = 1024
	MiB Bytes = 1024 * KiB
)
