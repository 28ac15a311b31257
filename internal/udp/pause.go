package udp

import "time"

const (
	// pauseTime is how long a socket that rests lets datagrams come together.
	pauseTime = time.Millisecond
	// pausePart is the part of the kernel's buffer that may be full after such a pause: a machine that is busy makes it last
	// several times as long.
	pausePart = 16
	// briskReads is for how many reads there is no pause after one that brought more than that.
	briskReads = 256
)

// pause decides after which reads it pays to let more datagrams come before the next.
type pause struct {
	isWanted bool
	isDue    bool
	came     int // bytes since the pause before
	brisk    int // so many reads are without
}

// note is told how many bytes a read brought, and whether there may be more.
func (p *pause) note(bytes, buffer int, more bool) {
	p.came += bytes
	if p.isDue = false; more || !p.isWanted {
		return
	}
	switch {
	case p.came > buffer/pausePart:
		p.brisk = briskReads
	case p.brisk > 0:
		p.brisk--
	default:
		p.isDue = true
	}
	p.came = 0
}

// next returns how long to wait before the next read.
func (p *pause) next() time.Duration {
	if p.isDue {
		return pauseTime
	}
	return 0
}

// Gather has datagrams that come one at a time wait up to a millisecond for others, so that they are read together. Where
// they come so fast that the kernel's buffer might fill meanwhile, they are read at once. It is called before anything is received.
func (s *Socket) Gather() { s.pause.isWanted = true }
