package paper_test

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/paper"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

// network is a chain of LANs in memory, in virtual time: the server in the first, a router
// between each and the next, clients wherever they are put. Everything random follows from
// the seed.
type network struct {
	t       testing.TB
	random  *rand.Rand
	now     time.Time
	agenda  agenda
	order   int
	lans    []*segment
	server  *server
	clients []*client

	loss, twice, swap float64 // of each packet at each host
	mtu               int     // payloads above vanish; 0 has no limit
	windows           []paper.Transmit
	sentAt            []time.Duration
	multicasts        map[wire.Type]int // packets that the clients sent to the group
	unicasts          map[wire.Type]int // to the server
}

// segment is a LAN: what enters it from the server's side, and what leaves it there, goes
// through it at its rate.
type segment struct {
	rate     float64 // bits per second
	queue    int     // packets that the router holds for it; 0 has no limit
	down, up time.Time
}

type moment struct {
	at    time.Time
	order int
	do    func()
}

type agenda []moment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(moment)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

type server struct {
	*paper.Sender
	file    []byte
	payload int
	reason  paper.Reason
	joined  []netip.Prefix
	dropped []netip.Prefix
	alarm   time.Time
}

type client struct {
	*paper.Receiver
	lan     int
	address netip.AddrPort
	got     []byte
	marks   int
	stored  int
	offered map[uint32]bool
	reason  paper.Reason
	length  int64
	alarm   time.Time
	deaf    bool
	acked   int
}

var serverAddress = netip.MustParseAddrPort("10.0.0.1:7431")

func subnet(lan int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(lan), 0}), 24)
}

// newNetwork has a LAN for each rate.
func newNetwork(t testing.TB, seed uint64, rates ...float64) *network {
	n := &network{
		t: t, random: rand.New(rand.NewPCG(seed, seed)), now: time.Unix(1_000_000, 0),
		multicasts: map[wire.Type]int{}, unicasts: map[wire.Type]int{},
	}
	for _, rate := range rates {
		n.lans = append(n.lans, &segment{rate: rate})
	}
	return n
}

// serve puts the server into the first LAN.
func (n *network) serve(options paper.SenderOptions, file []byte, payload int) {
	n.server = &server{Sender: paper.NewSender(options), file: file, payload: payload}
}

// join puts clients into a LAN.
func (n *network) join(lan, count int, options paper.ReceiverOptions) {
	options.LAN = subnet(lan)
	for range count {
		host := byte(len(n.clients) + 10)
		address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(lan), host}), 7431)
		n.clients = append(n.clients, &client{Receiver: paper.NewReceiver(options, n.random), lan: lan, address: address, offered: map[uint32]bool{}})
	}
}

func (n *network) at(when time.Time, do func()) {
	n.order++
	heap.Push(&n.agenda, moment{when, n.order, do})
}

// after has something happen after a time.
func (n *network) after(d time.Duration, do func()) { n.at(n.now.Add(d), do) }

// run goes on until everyone is finished, or for at most a time, and reports which.
func (n *network) run(most time.Duration) (finished bool) {
	end := n.now.Add(most)
	packets := uint32((len(n.server.file) + n.server.payload - 1) / n.server.payload)
	n.toServer(paper.Ready{Packets: packets, Ended: true})
	for !n.finished() {
		if n.agenda.Len() == 0 || n.agenda[0].at.After(end) {
			return false
		}
		next := heap.Pop(&n.agenda).(moment)
		n.now = next.at
		next.do()
	}
	return true
}

func (n *network) finished() bool {
	if n.server.reason == "" {
		return false
	}
	for _, c := range n.clients {
		if c.reason == "" && c.Server().IsValid() {
			return false
		}
	}
	return true
}

// pass is when a packet that enters a segment now is through, if its queue has room.
func (n *network) pass(at time.Time, free *time.Time, s *segment, packet wire.Packet) (time.Time, bool) {
	took := time.Duration(float64(8*packet.Length()) / s.rate * float64(time.Second))
	if s.queue > 0 && free.Sub(at) > time.Duration(s.queue)*took {
		return at, false
	}
	if free.Before(at) {
		*free = at
	}
	*free = free.Add(took)
	return *free, true
}

// flood sends a packet from the server's side through all LANs, or to one client.
func (n *network) flood(packet wire.Packet, only *client) {
	at := n.now
	for number, lan := range n.lans {
		if only != nil && only.lan < number {
			return
		}
		through, passed := n.pass(at, &lan.down, lan, packet)
		if !passed {
			return
		}
		at = through
		for _, c := range n.clients {
			if c.lan == number && (only == nil || only == c) {
				n.deliver(at, len(packet.Payload), func() { n.toClient(c, paper.Packet{From: serverAddress, Packet: packet}) })
			}
		}
	}
}

// rise sends a packet of a client's to the server; a multicast one to the others in its LAN too.
func (n *network) rise(from *client, packet wire.Packet, multicast bool) {
	at := n.now
	for number := from.lan; number >= 0; number-- {
		at, _ = n.pass(at, &n.lans[number].up, n.lans[number], packet)
		for _, c := range n.clients {
			if multicast && c != from && c.lan == number {
				n.deliver(at, 0, func() { n.toClient(c, paper.Packet{From: from.address, Packet: packet}) })
			}
		}
	}
	n.deliver(at, 0, func() { n.toServer(paper.Packet{From: from.address, Packet: packet}) })
}

// deliver loses, doubles and delays as the network is told to.
func (n *network) deliver(at time.Time, payload int, do func()) {
	if n.random.Float64() < n.loss || n.mtu > 0 && payload > n.mtu {
		return
	}
	if n.random.Float64() < n.swap {
		at = at.Add(time.Duration(n.random.Int64N(int64(5 * ms))))
	}
	n.at(at, do)
	if n.random.Float64() < n.twice {
		n.at(at.Add(time.Duration(n.random.Int64N(int64(ms)))), do)
	}
}

func (n *network) toServer(event paper.Event) {
	s := n.server
	for _, action := range s.Step(n.now, event) {
		switch action := action.(type) {
		case paper.Transmit:
			n.transmit(action)
		case paper.Answer:
			for _, c := range n.clients {
				if c.address == action.To {
					n.flood(s.packet(wire.RepairResponse, action.SN, action.LWSN, action.LWSN), c)
				}
			}
		case paper.Joined:
			s.joined = append(s.joined, action.LAN)
		case paper.Dropped:
			s.dropped = append(s.dropped, action.LAN)
		case paper.Finished:
			s.reason = action.Reason
		}
	}
	n.arm(&s.alarm, s.Deadline, func() { n.toServer(nil) })
}

// transmit sends a window, and tells the server when it is out.
func (n *network) transmit(w paper.Transmit) {
	n.windows, n.sentAt = append(n.windows, w), append(n.sentAt, n.now.Sub(time.Unix(1_000_000, 0)))
	end := uint32(0)
	if w.IsEnd {
		end = w.Last
	}
	for sn := w.First; sn <= w.Last; sn++ {
		n.flood(n.server.packet(wire.Data, sn, w.Last, end), nil)
	}
	out := n.lans[0].down
	if out.Before(n.now) {
		out = n.now
	}
	n.at(out, func() { n.toServer(paper.Sent{}) })
}

func (s *server) packet(kind wire.Type, sn, lwsn, end uint32) wire.Packet {
	p := wire.Packet{SN: sn, Type: kind, LWSN: lwsn}
	if sn != end {
		from := int(sn-1) * s.payload
		p.Payload = s.file[from:min(from+s.payload, len(s.file))]
	}
	return p
}

func (n *network) toClient(c *client, event paper.Event) {
	if c.deaf {
		return
	}
	for _, action := range c.Step(n.now, event) {
		switch action := action.(type) {
		case paper.Store:
			c.store(action)
		case paper.Mark:
			c.marks += int(action.Last - action.First + 1)
		case paper.Multicast:
			n.multicasts[action.Type]++
			c.acked++
			n.rise(c, action.Packet, true)
		case paper.Unicast:
			n.unicasts[action.Type]++
			n.rise(c, action.Packet, false)
		case paper.Finished:
			c.reason, c.length = action.Reason, action.Length
		}
	}
	n.arm(&c.alarm, c.Deadline, func() { n.toClient(c, nil) })
}

// cutOff has a client hear and do nothing for a time.
func (n *network) cutOff(number int, from, until time.Duration) {
	c := n.clients[number]
	n.after(from, func() { c.deaf = true })
	n.after(until, func() {
		c.deaf = false
		n.toClient(c, nil)
	})
}

func (c *client) store(s paper.Store) {
	c.stored++
	c.offered[s.SN] = true
	if end := int(s.Offset) + len(s.Payload); end > len(c.got) {
		c.got = append(c.got, make([]byte, end-len(c.got))...)
	}
	copy(c.got[s.Offset:], s.Payload)
}

// arm wakes a machine at its deadline, if that is still the deadline then.
func (n *network) arm(alarm *time.Time, deadline func() time.Time, wake func()) {
	due := deadline()
	if due.IsZero() || due.Equal(*alarm) {
		*alarm = due
		return
	}
	*alarm = due
	if due.Before(n.now) {
		due = n.now
	}
	n.at(due, func() {
		if alarm.Equal(deadline()) && !alarm.IsZero() && !n.now.Before(*alarm) {
			*alarm = time.Time{}
			wake()
		}
	})
}

// content is a file that does not repeat itself.
func content(size int) []byte {
	file := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(file)
	return file
}

func (n *network) wantAllWhole() {
	n.t.Helper()
	for i, c := range n.clients {
		if c.reason != paper.Done || c.length != int64(len(n.server.file)) || !bytes.Equal(c.got, n.server.file) {
			n.t.Errorf("client %d: %q with %d of %d bytes, %d missing, the same: %v", i, c.reason, c.length, len(n.server.file), c.Missing(), bytes.Equal(c.got, n.server.file))
		}
	}
}
