package link

import "time"

// Tally counts packets and the bytes in them.
type Tally struct {
	Packets int64 `json:"packets"`
	Bytes   Bytes `json:"bytes"`
}

func (t *Tally) add(size Bytes) {
	t.Packets++
	t.Bytes += size
}

// Count is what became of the packets of one direction so far. Whatever is
// offered ends in exactly one of CutOff, BlackHoled, Overflowed, Lost or
// Delivered; a duplicate is delivered once more.
type Count struct {
	Offered    Tally `json:"offered"`
	CutOff     Tally `json:"cut_off"`
	BlackHoled Tally `json:"black_holed"`
	Overflowed Tally `json:"overflowed"` // dropped at the tail of a full queue
	Carried    Tally `json:"carried"`    // serialized, whatever happened then
	Lost       Tally `json:"lost"`       // on the wire, by chance
	Duplicated Tally `json:"duplicated"`
	Corrupted  Tally `json:"corrupted"`
	Reordered  Tally `json:"reordered"`
	Delivered  Tally `json:"delivered"`

	Longest int   `json:"longest_queue_packets"`
	Largest Bytes `json:"largest_queue_bytes"`
}

// Reading is the state of one direction at a time.
type Reading struct {
	At           time.Duration
	Count        Count
	QueuePackets int
	QueueBytes   Bytes
	Level        Level
}

// Level is the queue length summed over time since the link was made. The
// difference of two, over the time between them, is the exact mean queue.
type Level struct {
	PacketSeconds float64
	ByteSeconds   float64
}

// Read tells the state at now.
func (s *Shaper) Read(now time.Duration) Reading {
	s.advance(now)
	s.level.until(now, s.queue.len(), s.queueBytes)
	return Reading{At: now, Count: s.count, QueuePackets: s.queue.len(), QueueBytes: s.queueBytes, Level: s.level.sum}
}

type level struct {
	sum  Level
	last time.Duration
}

// until adds the time since the last change, during which the queue was as told.
func (l *level) until(now time.Duration, packets int, bytes Bytes) {
	seconds := (now - l.last).Seconds()
	l.sum.PacketSeconds += seconds * float64(packets)
	l.sum.ByteSeconds += seconds * float64(bytes)
	l.last = now
}
