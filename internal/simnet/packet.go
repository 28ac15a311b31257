package simnet

import (
	"net"
	"os"
	"slices"
	"time"
)

// inbox is how many datagrams can wait for their reader; further ones are lost.
const inbox = 256

// PacketConn sends and receives datagrams.
type PacketConn struct {
	host    *Host
	at      Addr
	groups  []string
	waiting []*datagram
	reads   deadline
	changed signal
	closed  bool
}

var _ net.PacketConn = (*PacketConn)(nil)

type datagram struct {
	way     *way
	from    Addr
	to      Addr
	payload []byte
}

// ListenPacket takes a datagram port of the host.
func (h *Host) ListenPacket(address string) (*PacketConn, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	at, err := h.local("udp", address, func(port int) bool { return h.sockets[port] != nil })
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Err: err}
	}
	s := &PacketConn{host: h, at: at}
	h.sockets[at.Port] = s
	return s, nil
}

// Join has the socket receive what is sent to a group at its own port. A
// group's name must not be a host's.
func (s *PacketConn) Join(group string) {
	s.host.net.mu.Lock()
	defer s.host.net.mu.Unlock()
	s.groups = append(s.groups, group)
}

// WriteTo sends one datagram to "host:port" or "group:port". It never waits, and does not tell
// whether anybody receives the datagram.
func (s *PacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	n := s.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	at, err := s.host.parse("udp", to.String())
	if s.closed {
		err = net.ErrClosed
	}
	if err != nil {
		return 0, &net.OpError{Op: "write", Net: "udp", Err: err}
	}
	for _, h := range n.receivers(at) {
		w := n.way(s.host, h)
		w.send(&datagram{w, s.at, at, slices.Clone(p)})
	}
	return len(p), nil
}

// receivers returns the host, or the hosts with a member of the group.
func (n *Network) receivers(at Addr) (found []*Host) {
	if h := n.hosts[at.Host]; h != nil {
		return []*Host{h}
	}
	for _, h := range n.sortedHosts() {
		if s := h.sockets[at.Port]; s != nil && slices.Contains(s.groups, at.Host) {
			found = append(found, h)
		}
	}
	return found
}

func (w *way) send(d *datagram) {
	w.count.Datagrams++
	limit := w.shape.Queue
	if limit == 0 {
		limit = defaultQueue
	}
	if w.cut || w.narrow && len(d.payload) > smallPacket || w.queued+len(d.payload) > limit || w.shape.Loss > 0 && w.net.random.Float64() < w.shape.Loss {
		d.vanish()
		return
	}
	w.queued += len(d.payload)
	w.offer(d)
}

func (d *datagram) vanish() { d.way.count.DatagramsLost++ }

func (d *datagram) turn(int) int { return len(d.payload) }

func (d *datagram) depart(int) (again bool) {
	d.way.queued -= len(d.payload)
	d.way.post(arrival{fragile: true, lost: d.vanish, arrive: d.arrive})
	return false
}

func (d *datagram) arrive() {
	s := d.way.to.sockets[d.to.Port]
	if s == nil || len(s.waiting) >= inbox {
		d.vanish()
		return
	}
	d.way.count.DatagramsDelivered++
	s.waiting = append(s.waiting, d)
	s.changed.wake()
}

// ReadFrom waits for a datagram. The part of it that does not fit into p is lost.
func (s *PacketConn) ReadFrom(p []byte) (int, net.Addr, error) {
	n := s.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.await(&s.changed, func() bool {
		return s.closed || !s.host.frozen && (len(s.waiting) > 0 || s.reads.passed())
	})
	switch {
	case s.closed:
		return 0, nil, &net.OpError{Op: "read", Net: "udp", Addr: s.at, Err: net.ErrClosed}
	case s.reads.passed():
		return 0, nil, &net.OpError{Op: "read", Net: "udp", Addr: s.at, Err: os.ErrDeadlineExceeded}
	}
	first := s.waiting[0]
	s.waiting = s.waiting[1:]
	return copy(p, first.payload), first.from, nil
}

// Close gives the port back.
func (s *PacketConn) Close() error {
	s.host.net.mu.Lock()
	defer s.host.net.mu.Unlock()
	if s.closed {
		return &net.OpError{Op: "close", Net: "udp", Addr: s.at, Err: net.ErrClosed}
	}
	s.close()
	return nil
}

func (s *PacketConn) close() {
	s.closed = true
	s.reads.stop()
	delete(s.host.sockets, s.at.Port)
	s.changed.wake()
}

// LocalAddr returns the port.
func (s *PacketConn) LocalAddr() net.Addr { return s.at }

// SetDeadline is SetReadDeadline: writes never wait.
func (s *PacketConn) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// SetReadDeadline bounds reads, those in progress too.
func (s *PacketConn) SetReadDeadline(t time.Time) error {
	s.host.net.mu.Lock()
	defer s.host.net.mu.Unlock()
	s.reads.set(s.host.net, t, &s.changed)
	return nil
}

// SetWriteDeadline does nothing: writes never wait.
func (s *PacketConn) SetWriteDeadline(time.Time) error { return nil }
