package udp

import "time"

const (
	// pauseTime is how long a socket that rests lets datagrams come together.
	pauseTime = time.Millisecond
	// pausePart is the part of the kernel's buffer that may be full after such a pause: a machine that is busy makes it last
	// several times as long.
	pausePart = 16
	// briskReads is for how many reads there is no pause where datagrams come faster than that.
	briskReads = 256
)

// pause decides after which reads it pays to let more datagrams come before the next.
type pause struct {
	isWanted bool
	isDue    bool
	came     int       // bytes since the pause before, or since it is brisk
	brisk    int       // so many reads are without
	since    time.Time // it is brisk, or has been found to be so still
}

// note is told how many bytes a read brought, whether there may be more, and when the last of them came.
func (p *pause) note(bytes, buffer int, more bool, at time.Time) {
	p.came += bytes
	if p.isDue = false; more || !p.isWanted {
		return
	}
	if p.brisk > 0 {
		if p.brisk--; p.brisk > 0 {
			return
		}
	}
	// What a pause brought is judged by itself, since it may have been a burst; what came without, by how long that took.
	most := buffer / pausePart
	if p.since.IsZero() && p.came > most || !p.since.IsZero() && int64(p.came)*int64(pauseTime) > int64(most)*int64(at.Sub(p.since)) {
		p.brisk, p.since = briskReads, at
	} else {
		p.isDue, p.since = true, time.Time{}
	}
	p.came = 0
}

// next returns how long to wait before the next read. A pause that a deadline ends is over.
func (p *pause) next() time.Duration {
	if !p.isDue {
		return 0
	}
	p.isDue = false
	return pauseTime
}

// Gather has datagrams that come one at a time wait up to a millisecond for others, so that they are read together. Where
// they come so fast that the kernel's buffer might fill meanwhile, they are read at once. It is called before anything is received.
func (s *Socket) Gather() { s.pause.isWanted = true }
