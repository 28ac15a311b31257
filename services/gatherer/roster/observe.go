package roster

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/link"
)

// reading is what was read of a connection when it was last looked at.
type reading struct {
	at       time.Time
	received uint64
}

// arrived counts what came of a client over connections that have ended.
type arrived struct {
	gone   uint64 // all of it
	unseen uint64 // the part that no round of the controller has seen
}

// leave counts what came over a connection that ends.
func (a *arrived) leave(one *tracked) {
	received := max(one.last.received, one.conn.Received()) // the kernel counts what seals them, too
	a.gone += received
	a.unseen += received - one.last.received
}

// see returns what no round has seen, and takes it as seen.
func (a *arrived) see() uint64 {
	unseen := a.unseen
	a.unseen = 0
	return unseen
}

// Seen is how a client did when it was last looked at.
type Seen struct {
	Rate        uint64 // bytes per second
	RTT         time.Duration
	Window      int // the sum
	Connections int
	Wanted      int
	State       window.State
	Bottleneck  window.Bottleneck
	Reason      window.Reason
}

// Observe reads what the kernel knows of every connection, and returns when. It takes the time next to each reading: even if the
// roster was held up in between, what came is never taken for more than the link gives.
func (r *Roster) Observe() (facts window.Facts, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current, _ := r.Policy.Get()
	facts = window.Facts{Link: window.Link{Rate: window.Rate(current.Link), Memory: r.Memory}}
	last := r.observed
	r.observed = time.Now()
	for _, name := range slices.Sorted(maps.Keys(r.clients)) {
		if client := r.clients[name]; client.session != nil || len(client.uploads) > 0 {
			facts.Clients = append(facts.Clients, client.observe(last))
		}
	}
	return facts, r.observed
}

// observe returns what is known of a client. Its throughput is counted from when the last round observed this client, also over
// connections that existed for a part of that time: all clients together never have more than the link gives.
func (c *Client) observe(last time.Time) window.Client {
	now := time.Now()
	round := now.Sub(moment.Latest(last, c.looked))
	c.looked = now
	facts := window.Client{
		Name: c.Name, Target: window.Rate(c.Share.Target), Minimum: window.Rate(c.Share.Minimum), Cap: window.Rate(c.Share.Max),
		Priority: c.Share.Priority, MaxConnections: c.Share.MaxConnections, Remaining: c.waiting,
	}
	// A client that sends many short files may have no connection at this moment.
	came := c.arrived.see()
	facts.Active = came > 0 && c.order.paused == ""
	for _, path := range slices.Sorted(maps.Keys(c.uploads)) {
		upload := c.uploads[path]
		rate := window.Rate(0)
		upload.mu.Lock()
		for _, id := range slices.Sorted(maps.Keys(upload.conns)) {
			if seen, more, is := upload.conns[id].observe(); is {
				facts.Connections = append(facts.Connections, seen)
				rate += seen.Throughput
				came += more
			}
		}
		upload.rate = uint64(rate)
		upload.known = upload.known || rate > 0
		// A client without a connection uses nothing: its share is for others until it comes back.
		facts.Active = facts.Active || len(upload.conns) > 0 && upload.end == nil && c.order.paused == "" && !upload.held
		upload.mu.Unlock()
	}
	if round > 0 {
		facts.Throughput = window.Rate(float64(came) / round.Seconds())
	}
	return facts
}

// observe returns what the kernel knows of a connection, and how much has come since it was asked last; nothing if it has
// ended.
func (t *tracked) observe() (seen window.Connection, came uint64, is bool) {
	info, now := t.conn.Info(), time.Now()
	if info == nil {
		return window.Connection{}, 0, false
	}
	t.segment = segment(info)
	seen = window.Connection{
		ID: t.id, Age: now.Sub(t.begun), RTT: roundTrip(info), LeastRTT: microseconds(info.Min_rtt), MSS: t.segment,
		Received: info.Bytes_received, OutOfOrder: uint64(info.Rcv_ooopack), Segments: uint64(info.Data_segs_in), Window: t.window, Offered: int(info.Rcv_wnd),
	}
	since := t.begun
	if !t.last.at.IsZero() {
		since = t.last.at
	}
	came = info.Bytes_received - t.last.received
	if elapsed := now.Sub(since).Seconds(); elapsed > 0 {
		seen.Throughput = window.Rate(float64(came) / elapsed)
	}
	seen.Idle = came == 0
	t.last = reading{now, info.Bytes_received}
	return seen, came, true
}

// ethernet is how many bytes a segment has on Ethernet, with timestamps.
const ethernet = 1448

// segment returns how many bytes a client's segments have. It is known of what has come: what this end announces
// (tcpi_advmss) goes by its own interface, which may take jumbo frames that the client's network does not carry.
func segment(info *unix.TCPInfo) int {
	if info.Advmss > jumbo {
		return int(info.Advmss)
	}
	return int(min(info.Advmss, max(info.Rcv_mss, ethernet)))
}

// roundTrip returns the shorter of the two that the kernel knows. The receiver's is too long
// where the sender has nothing to send, the sender's where acknowledgements are delayed.
func roundTrip(info *unix.TCPInfo) time.Duration {
	if info.Rcv_rtt == 0 || info.Rtt == 0 {
		return microseconds(max(info.Rcv_rtt, info.Rtt))
	}
	return microseconds(min(info.Rcv_rtt, info.Rtt))
}

func microseconds(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }

// Apply sets what was decided, and tells clients. The decision is about the facts that Observe returned last.
func (r *Roster) Apply(facts window.Facts, decision window.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if decision.Scarce != r.scarce {
		r.scarce = decision.Scarce
		r.Log.Info("memory for receive buffers: whether windows are cut to fit has changed", "cut", r.scarce, "windows", decision.Budget, "most", r.Memory)
	}
	for i, share := range decision.Shares {
		client := r.clients[share.Name]
		if client == nil || i >= len(facts.Clients) {
			continue
		}
		client.apply(facts.Clients[i], share, decision.Scarce)
		client.pace(share.Pace)
		client.prune(time.Now())
	}
}

func (c *Client) apply(facts window.Client, share window.Share, scarce bool) {
	windows := make(map[uint64]window.Window, len(share.Windows))
	for _, one := range share.Windows {
		windows[one.ID] = one
	}
	seen := Seen{
		Rate: uint64(facts.Throughput), Connections: len(facts.Connections), Wanted: share.Connections,
		State: window.Persistent, Bottleneck: share.Bottleneck, Reason: share.Reason,
	}
	for _, one := range facts.Connections {
		seen.RTT += one.RTT / time.Duration(len(facts.Connections))
		seen.Window += windows[one.ID].Bytes
		if windows[one.ID].State == window.Initial {
			seen.State = window.Initial
		}
	}
	c.seen = seen
	for _, upload := range c.uploads {
		upload.mu.Lock()
		for id, one := range upload.conns {
			one.apply(windows[id].Bytes, scarce)
		}
		upload.mu.Unlock()
	}
	if share.Connections > 0 {
		c.tell(func(order *directive) { order.connections = share.Connections })
	}
}

// pace bounds what the client is asked for. Within one machine there is no link to be shared.
func (c *Client) pace(part window.Rate) {
	for _, upload := range c.uploads {
		upload.mu.Lock()
		for _, one := range upload.conns {
			if one.segment > jumbo {
				part = 0
			}
		}
		upload.mu.Unlock()
	}
	c.part = part
	c.repace()
}

// prune ends connections that are more than the client was told to have.
func (c *Client) prune(now time.Time) {
	told := c.perUpload()
	for _, upload := range c.uploads {
		upload.mu.Lock()
		upload.prune(now, told)
		upload.mu.Unlock()
	}
}

// jumbo is the largest segment of a network. The loopback's are larger: within a machine there is
// no link to be shared, and windows that suit a link hold less than a segment.
const jumbo = 16 << 10

// apply bounds a connection's window, even if the bound is the same as before: the kernel may have changed it. Within one machine
// only a lack of memory is a reason to do so.
func (t *tracked) apply(bytes int, scarce bool) {
	if t.segment > jumbo && !scarce {
		if t.window == 0 {
			return
		}
		bytes = link.Unbounded
	}
	if bytes <= 0 {
		return
	}
	bytes = max(bytes, window.FloorSegments*t.segment) // the controller's least, as segments are now
	if t.conn.SetWindow(bytes) != nil {
		return // the connection has ended
	}
	t.window = bytes
	if bytes >= link.Unbounded {
		t.window = 0
	}
}
