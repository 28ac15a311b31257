package fast

import "time"

const (
	// ahead is how much faster than the window turns round packets leave: the window is
	// what limits them, the pace spreads them.
	ahead = 1.25
	// spread is in what time packets are sent at once.
	spread = 2 * time.Millisecond
)

// pace spreads packets over time, and holds the ceiling whatever is reported.
type pace struct {
	ceiling float64 // packets per second
	rate    float64 // packets per second
	allowed float64 // packets now
	at      time.Time
}

func (p *pace) set(window float64, roundTrip time.Duration) {
	p.rate = min(p.ceiling, ahead*window/max(roundTrip, 50*time.Microsecond).Seconds())
}

// room is how many packets may leave now.
func (p *pace) room(now time.Time) int {
	if dt := now.Sub(p.at); dt > 0 {
		p.allowed = min(p.most(), p.allowed+p.rate*dt.Seconds())
		p.at = now
	}
	return max(0, int(p.allowed)) // polls do not wait for it
}

func (p *pace) most() float64 { return max(2, p.rate*spread.Seconds()) }

func (p *pace) take(packets int) { p.allowed -= float64(packets) }

// next is when it is worth asking again.
func (p *pace) next(now time.Time) time.Time {
	missing := max(1, p.most()/2) - p.allowed
	return now.Add(max(time.Duration(missing/p.rate*float64(time.Second)), 10*time.Microsecond))
}
