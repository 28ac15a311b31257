package simnet

// ring holds the bytes of a stream between two offsets. It grows as needed.
type ring struct{ bytes []byte }

const smallestRing = 4 << 10

// write stores p after end, and keeps what begins at start.
func (r *ring) write(p []byte, start, end int64) {
	r.grow(int(end-start)+len(p), start, end)
	for len(p) > 0 {
		n := copy(r.bytes[r.index(end):], p)
		p, end = p[n:], end+int64(n)
	}
}

func (r *ring) read(p []byte, start int64) {
	for len(p) > 0 {
		n := copy(p, r.bytes[r.index(start):])
		p, start = p[n:], start+int64(n)
	}
}

func (r *ring) index(offset int64) int { return int(offset % int64(len(r.bytes))) }

func (r *ring) grow(needed int, start, end int64) {
	size := max(smallestRing, len(r.bytes))
	for size < needed {
		size *= 2
	}
	if size == len(r.bytes) {
		return
	}
	larger := ring{make([]byte, size)}
	if end > start {
		held := make([]byte, end-start)
		r.read(held, start)
		larger.write(held, start, start)
	}
	r.bytes = larger.bytes
}
