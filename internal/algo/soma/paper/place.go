package paper

// place tells where payloads belong in a file. All of a transfer's packets have the same
// payload size, which the server chose, but the last, which may have less. A client that
// comes late may hear that one first: then it was stored in the wrong place, which is found
// out with the next.
type place struct {
	size   int    // the greatest payload so far; 0 before the first
	puts   uint64 // payloads stored
	latest uint64 // the number of the one stored last
	short  uint64 // the number of the one with less, which is the last of all; 0 if unknown
	rest   int    // its length
}

// fits reports whether a payload of this length can be where its number is.
func (p *place) fits(sn uint64, length int, expected, end uint64) bool {
	if p.short != 0 && sn > p.short {
		return false
	}
	switch {
	case p.size == 0, length == p.size:
		return true
	case length > p.size:
		return p.puts == 1 && p.latest != sn
	default: // the last
		return p.short == 0 && (end == 0 && sn >= expected || sn+1 == end)
	}
}

// endFits reports whether the transfer can end before sn.
func (p *place) endFits(sn uint64) bool { return p.short == 0 || sn == p.short+1 }

// put notes a payload that fits, and returns its place. If it shows that the only one before
// it was misplaced, that one's number is returned; it has to be had once more.
func (p *place) put(sn uint64, length int) (misplaced uint64, offset int64) {
	switch {
	case length > p.size:
		if p.size != 0 {
			misplaced = p.latest
		}
		p.size = length
	case length < p.size:
		p.short, p.rest = sn, length
	}
	p.puts++
	p.latest = sn
	return misplaced, int64(sn-FirstSN) * int64(p.size)
}

// length is how long the file is whose end has this number.
func (p *place) length(end uint64) int64 {
	switch {
	case end <= FirstSN:
		return 0
	case p.short != 0:
		return int64(p.short-FirstSN)*int64(p.size) + int64(p.rest)
	default:
		return int64(end-FirstSN) * int64(p.size)
	}
}
