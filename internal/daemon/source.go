package daemon

import (
	"net"
	"net/netip"
	"sync"
)

// sourceShare is the part of all connections that one source address can have at most: one in so
// many. So others always find room.
const sourceShare = 4

// sources counts the open connections of each source address, which may have at most so many.
type sources struct {
	most int

	mu   sync.Mutex
	open map[netip.Addr]int
}

func newSources(most int) *sources {
	return &sources{most: max(most, 1), open: make(map[netip.Addr]int)}
}

// hold wraps a connection so that it gives its place back when it is closed; nil if its source has as many as it may have.
func (s *sources) hold(connection net.Conn) *sourceConn {
	from, _ := netip.ParseAddrPort(connection.RemoteAddr().String())
	if !s.take(from.Addr()) {
		return nil
	}
	return &sourceConn{connection, sync.OnceFunc(func() { s.release(from.Addr()) })}
}

func (s *sources) take(source netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[source] >= s.most {
		return false
	}
	s.open[source]++
	return true
}

func (s *sources) release(source netip.Addr) {
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

// sourceListener closes connections from a source that already has as many as it may have.
type sourceListener struct {
	net.Listener
	*sources
}

func newSourceListener(listener net.Listener, most int) *sourceListener {
	return &sourceListener{listener, newSources(most)}
}

// Accept returns the next connection whose source may have one more.
func (s *sourceListener) Accept() (net.Conn, error) {
	for {
		connection, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if held := s.hold(connection); held != nil {
			return held, nil
		}
		connection.Close()
	}
}
