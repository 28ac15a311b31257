package simnet

import "time"

// Rate is in bytes per second. Zero means no limit.
type Rate int64

// Shape is how one direction of a link treats what it carries. The zero Shape
// takes no time and loses nothing.
type Shape struct {
	Latency time.Duration // in one direction
	Rate    Rate          // shared by everything that goes this way
	Loss    float64       // probability that a datagram is lost; streams lose nothing
	Queue   int           // bytes of datagrams that may wait for the rate; 0 is 256 KiB
}

const (
	defaultQueue = 256 << 10
	largestTurn  = 64 << 10
)

// turn returns how many bytes one sender sends before the next one's turn: what lasts 10 ms, so
// that a change of the rate soon takes effect.
func (r Rate) turn() int {
	if r == 0 {
		return largestTurn
	}
	return int(min(max(1, r/100), largestTurn))
}

func (r Rate) last(bytes int) time.Duration {
	return time.Duration(float64(bytes) / float64(r) * float64(time.Second))
}
