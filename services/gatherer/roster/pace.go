package roster

import (
	"math"
	"sync"
	"time"
)

// pace bounds how fast a client is asked for bytes if the policy caps its rate, or if its part of the link is less than the smallest
// window brings. Windows bound clients on the way, where they can. What is not asked for does not come at all: not within one machine,
// and not from a client that ignores windows.
type pace struct {
	mu    sync.Mutex
	rate  uint64  // bytes per second; zero is no bound
	near  bool    // no more may be under way than comes in paceTime
	level float64 // how many bytes may be asked for
	at    time.Time
	among int // uploads that share it
}

// A client that was asked for nothing for paceTime may be asked for what comes in that time at once, leastPace bytes at the least.
// Less than comes in pacePiece is not asked for: segments would carry next to nothing.
const (
	paceTime  = 250 * time.Millisecond
	leastPace = 16 << 10
	pacePiece = paceTime / 5
)

// set says what the rate is by the policy and by the controller, zero where there is no bound, and
// how many uploads share it. It reports whether the rate is another.
func (p *pace) set(cap, part uint64, among int) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, wasNear := p.rate, p.near
	p.rate, p.near, p.among = cap, part > 0, max(1, among)
	if part > 0 && (cap == 0 || part < cap) {
		p.rate = part
	}
	return p.rate != before || p.near != wasNear
}

// burst is how much may be asked for at once.
func (p *pace) burst() float64 { return max(leastPace, float64(p.rate)*paceTime.Seconds()) }

// most returns the offset up to which an upload may be asked for bytes when all before came has come.
func (p *pace) most(came uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.near {
		return came + uint64(p.burst())
	}
	return math.MaxUint64
}

// bounds reports whether more may be asked for by time alone.
func (p *pace) bounds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rate > 0
}

// draw takes some of what is wanted: a part of what there is for each upload, or none.
func (p *pace) draw(now time.Time, want uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return want
	}
	most := p.burst()
	if p.at.IsZero() {
		p.level = most
	} else {
		p.level = min(most, p.level+float64(p.rate)*max(0, now.Sub(p.at).Seconds()))
	}
	p.at = now
	piece := min(float64(want), leastPace, max(1, float64(p.rate)*pacePiece.Seconds()))
	if p.level < piece {
		return 0
	}
	given := min(float64(want), max(piece, p.level/float64(max(1, p.among))))
	p.level -= given
	return uint64(given)
}

// repace bounds what the client is asked for by its share and its part of the link. If that bound is new, it asks at once for what
// the client may send now.
func (c *Client) repace() {
	if !c.paced.set(uint64(c.Share.Max), uint64(c.part), c.active()) {
		return
	}
	for _, upload := range c.uploads {
		upload.askForMore()
	}
}
