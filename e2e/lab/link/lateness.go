package link

import (
	"math/bits"
	"time"
)

// Lateness is how long after their due time packets were delivered: the error
// of the instrument itself.
type Lateness struct {
	packets int64
	worst   time.Duration
	slots   [32]int64 // by power of two of microseconds
}

func (l *Lateness) add(late time.Duration) {
	l.packets++
	l.worst = max(l.worst, late)
	l.slots[min(bits.Len64(uint64(late.Microseconds())), len(l.slots)-1)]++
}

// Worst is the largest lateness.
func (l Lateness) Worst() time.Duration { return l.worst }

// Within returns a time in which this share of the packets was delivered,
// rounded up to a power of two of microseconds.
func (l Lateness) Within(share float64) time.Duration {
	var seen int64
	for slot, n := range l.slots {
		seen += n
		if float64(seen) >= share*float64(l.packets) {
			return min(l.worst, time.Microsecond<<slot)
		}
	}
	return l.worst
}
