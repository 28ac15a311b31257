package window

import (
	"cmp"
	"math"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
)

const (
	// usualMSS is taken where a segment's size is not known: Ethernet, with timestamps.
	usualMSS = 1448
	leastMSS = 88   // the least that the kernel takes
	mostMSS  = 9000 // jumbo frames; the loopback has more, but does not need it
	// usualRTT is taken where a round trip is not known: 003's RTT_std.
	usualRTT = 100 * time.Millisecond
	// longestRTT is more than any path has; shortestRTT is less than a machine has to itself.
	longestRTT  = 10 * time.Second
	shortestRTT = 10 * time.Microsecond
	// mostRate is more than any link has: 10 Tbit/s.
	mostRate = Rate(1.25e12)
)

// sane returns the facts without what cannot be true: equations that divide by these must not
// meet zero, infinity or what is not a number. What cannot be true counts as unknown, so
// that a client that lies gains nothing, and the others lose nothing.
func sane(facts Facts) Facts {
	facts.Link.Rate, facts.Link.Others = facts.Link.Rate.wanted(), facts.Link.Others.sane()
	facts.Link.Memory = max(0, facts.Link.Memory)
	clients := make([]Client, len(facts.Clients))
	total := 0
	for _, c := range facts.Clients {
		total += len(c.Connections)
	}
	connections := make([]Connection, 0, total)
	for i, c := range facts.Clients {
		c.Target, c.Minimum, c.Cap, c.Throughput = c.Target.wanted(), c.Minimum.wanted(), c.Cap.wanted(), c.Throughput.sane()
		c.Target = cmp.Or(c.Target, c.Minimum) // a client without a target is to have its minimum
		if c.Cap > 0 {
			c.Target = min(c.Target, c.Cap)
		}
		c.Minimum = min(c.Minimum, c.Target)
		c.MaxConnections = min(max(0, c.MaxConnections), parallel.Most)
		from := len(connections)
		for _, one := range c.Connections {
			connections = append(connections, one.sane())
		}
		c.Connections = connections[from:len(connections):len(connections)]
		clients[i] = c
	}
	facts.Clients = clients
	return facts
}

func (r Rate) sane() Rate {
	if math.IsNaN(float64(r)) || r <= 0 || r > mostRate {
		return 0
	}
	return r
}

// wanted returns a rate of the policy. More than any link has is as much as there is.
func (r Rate) wanted() Rate { return min(r, mostRate).sane() }

func (c Connection) sane() Connection {
	c.Throughput, c.Window, c.Age = c.Throughput.sane(), min(max(0, c.Window), math.MaxInt32), max(0, c.Age)
	c.Offered = min(max(0, c.Offered), math.MaxInt32)
	if c.MSS <= 0 {
		c.MSS = usualMSS
	}
	c.MSS = min(max(c.MSS, leastMSS), mostMSS)
	c.RTT, c.LeastRTT = saneRTT(c.RTT), saneRTT(c.LeastRTT)
	c.RTT = cmp.Or(c.RTT, c.LeastRTT)
	c.LeastRTT = min(cmp.Or(c.LeastRTT, c.RTT), c.RTT)
	return c
}

func saneRTT(rtt time.Duration) time.Duration {
	if rtt <= 0 {
		return 0
	}
	return min(max(rtt, shortestRTT), longestRTT)
}

// mss returns the segment size of a client's connections.
func (c Client) mss() int {
	if len(c.Connections) == 0 {
		return usualMSS
	}
	return c.Connections[0].MSS
}

// rtt returns the mean round trip of a client's connections, as far as it is known.
func (c Client) rtt() time.Duration {
	sum, known := time.Duration(0), 0
	for _, one := range c.Connections {
		if one.RTT > 0 {
			sum, known = sum+one.RTT, known+1
		}
	}
	if known == 0 {
		return usualRTT
	}
	return sum / time.Duration(known)
}

// windows cuts a client's window into those of its connections, as even as can be.
func (c Client) windows(share *Share, bytes, least float64) {
	for j, one := range c.Connections {
		each := max(bytes/float64(len(c.Connections)), least*float64(one.MSS), 1)
		share.Windows[j] = Window{ID: one.ID, Bytes: whole(each), State: Persistent}
	}
}

// whole returns a number of bytes that fits an int32, as the kernel wants it.
func whole(bytes float64) int { return int(min(max(bytes, 0), math.MaxInt32)) }
