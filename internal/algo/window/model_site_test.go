package window_test

import (
	"math"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// site is a gathering server of the model, its access link, and those who share it.
type site struct {
	world
	access     *pipe
	controller window.Controller
	link       window.Link
	uploads    []*upload
	foreign    []*flow
	ids        uint64
	last       window.Decision
	stepped    time.Duration
	// lie changes what the controller is told.
	lie func(*window.Facts)
}

// upload is a client of the model.
type upload struct {
	window.Client
	site    *site
	path    time.Duration
	own     *pipe // a link of its own on the way; nil is none
	rate    float64
	from    time.Duration
	bytes   uint64 // zero is without an end
	flows   []*conn
	wanted  int
	cubic   bool
	was     uint64
	gone    uint64 // received by connections that are closed
	bins    []float64
	binned  uint64
	left    bool
	changes int
	ended   time.Duration
	// paced is how much is asked for per second, zero being all; asked is how much has been asked for up to now.
	paced float64
	asked float64
	last  float64 // bytes per second in the last step
	idle  float64 // how much could be asked for, and was not
}

type conn struct {
	*flow
	id  uint64
	was uint64
	set int // the window that was set last
}

const bin = 100 * time.Millisecond

func newSite(rate float64, limit int, controller window.Controller) *site {
	s := &site{controller: controller}
	s.access = &pipe{world: &s.world, rate: rate, limit: limit}
	s.access.arrive = func(one packet) {
		if one.flow != nil {
			one.flow.receive(one)
		}
	}
	s.after(window.Interval, s.step)
	s.after(bin, s.bin)
	s.after(asks, s.ask)
	return s
}

// join has a client come now.
func (s *site) join(u *upload) *upload {
	u.site, u.from, u.wanted = s, s.now, max(1, u.wanted)
	s.uploads = append(s.uploads, u)
	u.bins = make([]float64, s.now/bin)
	if u.paced = float64(s.link.Rate); u.paced > 0 { // until the first step
		u.asked = u.paced / 4
	}
	for range u.wanted {
		u.open()
	}
	return u
}

func (u *upload) leave() {
	u.left = true
	for _, c := range u.flows {
		c.closed = true
	}
	u.flows = nil
}

func (u *upload) open() {
	s := u.site
	first := s.access
	if u.own != nil {
		first = u.own
	}
	s.ids++
	c := &conn{flow: newFlow(&s.world, first, u.path, nil), id: s.ids}
	more := u.more(s.now)
	c.more = func() uint64 { return min(more(), u.credit(c)) }
	c.cubic, c.clamp = u.cubic, s.controller.First()
	if u.bytes > 0 {
		c.done = func() { u.ended = s.now; u.leave() }
	}
	u.flows = append(u.flows, c)
	c.start()
}

// more returns how much a connection may send by now: all, or what its client has produced.
func (u *upload) more(from time.Duration) func() uint64 {
	switch {
	case u.bytes > 0:
		return func() uint64 { return (u.bytes + payload - 1) / payload }
	case u.rate > 0:
		return func() uint64 {
			n := float64(max(1, len(u.flows)))
			return uint64(u.rate / n * (u.site.now - from).Seconds() / payload)
		}
	}
	return func() uint64 { return math.MaxUint64 / 2 / payload }
}

const (
	// asks is how often more is asked for; ahead is how far ahead that is for a client that is not paced, in bytes
	// and in time.
	asks, aheadBytes, aheadTime = 50 * time.Millisecond, 128 << 10, 1
)

// credit returns how many segments a connection may have sent by now, of what was asked for.
func (u *upload) credit(c *conn) uint64 {
	if u.paced == 0 {
		return math.MaxUint64
	}
	left := max(0, u.asked-float64(u.sent()))
	return c.next + uint64(left/payload)
}

// sent returns how many bytes were sent over all connections.
func (u *upload) sent() (sum uint64) {
	sum = u.gone
	for _, c := range u.flows {
		sum += c.next * payload
	}
	return sum
}

// pace sets what a client is asked for from now on. What it was asked for before, it sends as it likes.
func (u *upload) pace(rate float64) {
	if rate > 0 && u.paced == 0 {
		u.asked = float64(u.total()) + max(aheadBytes, aheadTime*float64(u.last))
		u.idle = 0
	}
	u.paced = rate
	u.resume()
}

// resume has the established connections send what they may.
func (u *upload) resume() {
	for _, c := range u.flows {
		if c.heard > 0 {
			c.send()
		}
	}
}

// ask asks for more.
func (s *site) ask() {
	for _, u := range s.uploads {
		if u.paced > 0 {
			u.idle = min(u.idle+u.paced*asks.Seconds(), max(16<<10, u.paced/4))
			more := min(u.idle, max(0, float64(u.total())+max(16<<10, u.paced/4)-u.asked))
			u.idle, u.asked = u.idle-more, u.asked+more
			u.resume()
		}
	}
	s.after(asks, s.ask)
}

func (s *site) bin() {
	for _, u := range s.uploads {
		total := u.total()
		u.bins = append(u.bins, float64(total-u.binned)/bin.Seconds())
		u.binned = total
		for _, c := range u.flows {
			if u.rate > 0 {
				c.send() // what its client has produced meanwhile
			}
		}
	}
	s.after(bin, s.bin)
}

func (u *upload) total() uint64 {
	total := u.gone
	for _, c := range u.flows {
		total += c.received
	}
	return total
}

// step is the gatherer's loop: observe, decide, apply.
func (s *site) step() {
	facts := s.facts()
	if s.lie != nil {
		s.lie(&facts)
	}
	s.last = s.controller.Step(time.Unix(1e9, 0).Add(s.now), facts)
	i := 0
	for _, u := range s.uploads {
		if u.left {
			continue
		}
		s.apply(u, s.last.Shares[i])
		i++
	}
	s.after(window.Interval, s.step)
}

func (s *site) facts() window.Facts {
	facts := window.Facts{Link: s.link}
	span := (s.now - s.stepped).Seconds()
	s.stepped = s.now
	for _, u := range s.uploads {
		if u.left {
			continue
		}
		client := u.Client
		total := u.total()
		client.Active, client.Throughput = len(u.flows) > 0 || total > u.was, window.Rate(float64(total-u.was)/span)
		u.last = float64(client.Throughput)
		u.was = total
		for _, c := range u.flows {
			client.Connections = append(client.Connections, window.Connection{
				ID: c.id, Age: s.now - c.opened, RTT: c.rtt, LeastRTT: c.least, MSS: payload, Window: c.set,
				Throughput: window.Rate(float64(c.received-c.was) / span), Received: c.received,
				OutOfOrder: c.outOfOrder, Idle: c.received == c.was,
			})
			c.was = c.received
		}
		facts.Clients = append(facts.Clients, client)
	}
	return facts
}

func (s *site) apply(u *upload, share window.Share) {
	for j, c := range u.flows {
		if w := share.Windows[j].Bytes; w != 0 {
			c.clamp, c.set = w, w
		}
	}
	u.pace(float64(share.Pace))
	if share.Connections == 0 || share.Connections == len(u.flows) || u.bytes > 0 {
		return
	}
	u.changes++
	for len(u.flows) < share.Connections {
		u.open()
	}
	for len(u.flows) > share.Connections {
		last := u.flows[len(u.flows)-1]
		last.closed = true
		u.gone += last.received
		u.flows = u.flows[:len(u.flows)-1]
	}
}

// interfere has a greedy transfer that nobody controls share the access link.
func (s *site) interfere(path time.Duration, cubic bool) *flow {
	f := newFlow(&s.world, s.access, path, func() uint64 { return math.MaxUint64 / 2 / payload })
	f.cubic = cubic
	s.foreign = append(s.foreign, f)
	f.start()
	return f
}

// run lets some time pass.
func (s *site) run(d time.Duration) { s.until(s.now + d) }

// mean returns a client's throughput between two times, in bytes per second.
func (u *upload) mean(from, to time.Duration) float64 {
	sum := 0.0
	for _, b := range u.bins[from/bin : to/bin] {
		sum += b
	}
	return sum / float64(to/bin-from/bin)
}

// worst returns the lowest throughput over any span of a length between two times.
func (u *upload) worst(span, from, to time.Duration) float64 {
	worst := math.Inf(1)
	for at := from; at+span <= to; at += bin {
		worst = min(worst, u.mean(at, at+span))
	}
	return worst
}

// queue returns the mean of the access link's queue since it was last asked, in bytes.
func (s *site) queue() func() float64 {
	s.access.account()
	area, at := s.access.area, s.now
	return func() float64 {
		s.access.account()
		return (s.access.area - area) / (s.now - at).Seconds()
	}
}
