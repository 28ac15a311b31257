package daemon

import (
	"net"
	"net/netip"
	"sync"
)

// sourceShare is the part of all connections that one source address can have at
// most: one in so many. Others always find room.
const sourceShare = 4

// sourceListener closes connections from a source that has as many as it may.
type sourceListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[netip.Addr]int
}

func newSourceListener(listener net.Listener, most int) *sourceListener {
	return &sourceListener{Listener: listener, most: max(most, 1), open: make(map[netip.Addr]int)}
}

// Accept returns the next connection whose source may have one more.
func (s *sourceListener) Accept() (net.Conn, error) {
	for {
		connection, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source, _ := netip.ParseAddrPort(connection.RemoteAddr().String())
		if s.take(source.Addr()) {
			return &sourceConn{connection, sync.OnceFunc(func() { s.release(source.Addr()) })}, nil
		}
		connection.Close()
	}
}

func (s *sourceListener) take(source netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[source] >= s.most {
		return false
	}
	s.open[source]++
	return true
}

func (s *sourceListener) release(source netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[source]--; s.open[source] == 0 {
		delete(s.open, source)
	}
}

// sourceConn gives its place back when it is closed.
type sourceConn struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *sourceConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
