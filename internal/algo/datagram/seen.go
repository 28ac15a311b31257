package datagram

// SeenSpan is how many of the latest numbers Seen remembers.
const SeenSpan = 4096

const seenWords = SeenSpan / 64

// Seen remembers which of the latest numbers have come, like the window of RFC 6479: older numbers count as having come.
type Seen struct {
	next uint64 // after the highest number; zero if none has come
	bits [seenWords]uint64
}

// Next returns the number after the highest that has come.
func (s *Seen) Next() uint64 { return s.next }

// Has reports whether a number has come, or is too old to tell.
func (s *Seen) Has(n uint64) bool {
	switch {
	case n >= s.next:
		return false
	case s.next-n > SeenSpan:
		return true
	}
	return s.bits[n/64%seenWords]&(1<<(n%64)) != 0
}

// Note notes that a number has come, and reports whether for the first time.
func (s *Seen) Note(n uint64) (first bool) {
	if s.Has(n) {
		return false
	}
	if n >= s.next {
		s.forget(n)
		s.next = n + 1
	}
	s.bits[n/64%seenWords] |= 1 << (n % 64)
	return true
}

// forget makes room for the numbers up to a new highest one.
func (s *Seen) forget(highest uint64) {
	if highest-s.next >= SeenSpan {
		s.bits = [seenWords]uint64{}
		return
	}
	for n := s.next; n <= highest; n++ {
		s.bits[n/64%seenWords] &^= 1 << (n % 64)
	}
}
