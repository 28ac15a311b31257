package datagram

// SeenSpan is how many of the latest numbers are remembered.
const SeenSpan = 4096

const seenWords = SeenSpan / 64

// Seen remembers which of the latest numbers came, like RFC 6479's window: a number that is
// too old to tell counts as having come.
type Seen struct {
	next uint64 // after the highest; zero if none came
	bits [seenWords]uint64
}

// Next returns the number after the highest that came.
func (s *Seen) Next() uint64 { return s.next }

// Has reports whether a number came, or is too old to tell.
func (s *Seen) Has(n uint64) bool {
	switch {
	case n >= s.next:
		return false
	case s.next-n > SeenSpan:
		return true
	}
	return s.bits[n/64%seenWords]&(1<<(n%64)) != 0
}

// Note notes that a number came, and returns whether it is the first time.
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

// forget makes room for all up to a number that is the highest now.
func (s *Seen) forget(highest uint64) {
	if highest-s.next >= SeenSpan {
		s.bits = [seenWords]uint64{}
		return
	}
	for n := s.next; n <= highest; n++ {
		s.bits[n/64%seenWords] &^= 1 << (n % 64)
	}
}
