package simnet

import "net"

// backlog is how many connections can wait for Accept; further ones are asked to try again.
const backlog = 128

type listener struct {
	host    *Host
	at      Addr
	waiting []*end
	changed signal
	closed  bool
}

// Listen takes a port of the host: "name:port", ":port" or ":0".
func (h *Host) Listen(address string) (net.Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	at, err := h.local("tcp", address, func(port int) bool { return h.listeners[port] != nil })
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr{"tcp", h.name, at.Port}, Err: err}
	}
	l := &listener{host: h, at: at}
	h.listeners[at.Port] = l
	h.net.log.say("%s listens", at)
	return l, nil
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	n := l.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.await(&l.changed, func() bool {
		return l.closed || !l.host.frozen && len(l.waiting) > 0
	})
	if l.closed {
		return nil, l.fail(net.ErrClosed)
	}
	first := l.waiting[0]
	l.waiting = l.waiting[1:]
	return &Conn{end: first, net: n}, nil
}

// Close gives the port back, and resets connections that nobody accepted.
func (l *listener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.at, Err: net.ErrClosed}
	}
	l.close()
	return nil
}

func (l *listener) close() {
	l.closed = true
	delete(l.host.listeners, l.at.Port)
	l.host.net.log.say("%s listens no more", l.at)
	for _, e := range l.waiting {
		if !e.gone {
			e.closed = true
			e.die(net.ErrClosed, true)
			e.reset()
		}
	}
	l.waiting = nil
	l.changed.wake()
}

// Addr returns the port.
func (l *listener) Addr() net.Addr { return l.at }

func (l *listener) fail(err error) error {
	return &net.OpError{Op: "accept", Net: "tcp", Addr: l.at, Err: err}
}
