package parallel

import (
	"fmt"
	"time"
)

// Reason says why a link has the stripes it has. The same words are log fields, metric labels and API values.
type Reason string

// The reasons.
const (
	Short   Reason = "short_path" // the path is so short that one connection fills it
	Begun   Reason = "begun"      // one stripe: nothing has been measured yet
	Lossy   Reason = "lossy"      // as many as the round trip suggests: the path loses packets by itself
	Known   Reason = "known"      // the number that served an earlier link
	More    Reason = "try_more"   // to see whether more carry more
	Fewer   Reason = "try_fewer"  // to see whether fewer carry as much
	Gained  Reason = "gained"     // more carry more
	NoGain  Reason = "no_gain"    // more did not carry more, or lost too much
	Enough  Reason = "enough"     // fewer carry as much
	Crowded Reason = "crowded"    // a queue stands on the path that this link does not cause
	Needed  Reason = "needed"     // fewer carried less
	Fixed   Reason = "fixed"      // the bounds allow no other number
	Limited Reason = "limited"    // the neighbour takes no more
)

// Choice is what a link should have.
type Choice struct {
	Stripes int
	Reason  Reason
	// Buffer is how many bytes a stripe's socket should be able to hold: twice its share of what
	// the path holds. Zero means that it is not known yet.
	Buffer uint64
	// Piece is how many bytes a stripe should be handed at once: so few that a stripe which turns
	// slow does not keep the others waiting for long.
	Piece uint64

	before, now Measured
	was         int // the number of stripes before
}

// Alone reports whether there is one stripe, and no other will join it.
func (c Choice) Alone() bool { return c.Stripes == 1 && (c.Reason == Short || c.Reason == Fixed) }

// Measured is how a link did over some time.
type Measured struct {
	Rate     float64 // bytes per second
	RTT      time.Duration
	LeastRTT time.Duration
	Loss     float64 // share of the segments that had to be sent again
	Busy     float64 // share of the time in which there was something to send
}

// queues reports whether a queue stands on the path, so that packets take longer than they have to.
func (m Measured) queues() bool {
	return m.LeastRTT > 0 && m.RTT > m.LeastRTT+m.LeastRTT/4+queueTime
}

func (m Measured) String() string {
	return fmt.Sprintf("%.1f Mbit/s, round trip %v (at least %v), %.2f %% lost", m.Rate*8/1e6,
		m.RTT.Round(100*time.Microsecond), m.LeastRTT.Round(100*time.Microsecond), 100*m.Loss)
}

// Explain says in a sentence why the choice was made.
func (c Choice) Explain() string {
	switch c.Reason {
	case Short:
		return fmt.Sprintf("one stripe: the round trip is %v", c.now.RTT)
	case Fixed:
		return fmt.Sprintf("%s: no other number is allowed", count(c.Stripes))
	case Limited:
		return fmt.Sprintf("%s: the neighbour takes no more", count(c.Stripes))
	case Begun:
		return fmt.Sprintf("%s to begin with: the round trip is %v", count(c.Stripes), c.now.RTT)
	case Lossy:
		return fmt.Sprintf("%s for a round trip of %v: the path loses (%.2f %%) though no queue stands", count(c.Stripes), c.now.RTT.Round(100*time.Microsecond), 100*c.now.Loss)
	case Known:
		return fmt.Sprintf("%s to begin with: an earlier link did best so", count(c.Stripes))
	case More:
		return fmt.Sprintf("%s to see whether it is faster than %d: %v", count(c.Stripes), c.was, c.now)
	case Fewer:
		return fmt.Sprintf("%s to see whether it is as fast as %d: %v", count(c.Stripes), c.was, c.now)
	case Gained:
		return fmt.Sprintf("%s: with %d it was %v; now it is %v", count(c.Stripes), c.was, c.before, c.now)
	case Enough:
		return fmt.Sprintf("%s: with %d it was no faster: %v; now it is %v", count(c.Stripes), c.was, c.before, c.now)
	case Crowded:
		return fmt.Sprintf("%s: others fill the path, and more would be taken from them: %v", count(c.Stripes), c.now)
	}
	return fmt.Sprintf("%s: with %d it was %v; before it was %v", count(c.Stripes), c.was, c.now, c.before)
}

func count(stripes int) string {
	if stripes == 1 {
		return "1 stripe"
	}
	return fmt.Sprintf("%d stripes", stripes)
}
