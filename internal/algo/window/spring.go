package window

import (
	"cmp"
	"time"
)

// spring is 001's reference 1 as 001 §2.1 and its Table 1 have it: the windows are the bandwidth
// delay product of an access link that is known, and a part of the queue before it, which is
// known too. While short transfers are there, the long ones have one segment.
type spring struct {
	link Rate
}

const (
	springLink       = Rate(4e6 / 8) // "access link bandwidth 4 Mbps"
	springQueue      = 64e3          // "queue length (to avoid the congestion) 64 KBytes"
	springShortQueue = 5e3           // "queue length (to reduce the delay) 5 KBytes"
	springLong       = 8e3           // "threshold (short-long) 8KBytes"
)

func (s spring) First() int { return whole(s.link.bytes(usualRTT) + springShortQueue) }

func (s spring) Step(_ time.Time, facts Facts) Decision {
	facts = sane(facts)
	decision := begin(facts)
	link := cmp.Or(facts.Link.Rate, s.link)
	long, short := 0, 0
	for _, c := range facts.Clients {
		for _, one := range c.Connections {
			switch {
			case one.Idle:
			case one.Received >= springLong:
				long++
			default:
				short++
			}
		}
	}
	sharing, queue := long, springQueue
	if short > 0 {
		sharing, queue = short, springShortQueue
	}
	for i, c := range facts.Clients {
		share := &decision.Shares[i]
		share.Reason, share.Bottleneck = Ratio, None
		for j, one := range c.Connections {
			w := Window{ID: one.ID, Bytes: one.MSS, State: springState(one)}
			if short == 0 || w.State == Initial {
				w.Bytes = max(one.MSS, whole((link.bytes(orUsual(one.LeastRTT))+queue)/float64(max(1, sharing))))
			}
			share.Windows[j] = w
			share.Rate += Rate(float64(w.Bytes) / orUsual(one.RTT).Seconds())
			decision.Budget += w.Bytes
		}
	}
	decision.Available = link
	return decision
}

// springState takes interactive and short connections for initial ones: 1's three classes
// differ by what they have received, and both are served before the long ones.
func springState(one Connection) State {
	if one.Received >= springLong {
		return Persistent
	}
	return Initial
}
