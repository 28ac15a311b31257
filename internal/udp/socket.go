package udp

import (
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// Socket sends and receives datagrams, many with one system call.
type Socket struct {
	conn    *net.UDPConn
	raw     syscall.RawConn
	batch   *ipv4.PacketConn // for sending; it also serves IPv6: the calls are the same
	reading *incoming        // nil until anything is read
	arrived time.Time
	buffer  int
	segment atomic.Bool // the kernel cuts what is sent
	merge   bool        // the kernel hands over several datagrams as one
}

// New takes over a connection, and asks the kernel for buffers of so many bytes. The kernel gives
// at most what net.core.rmem_max and wmem_max allow; Buffer says how much that is.
func New(conn *net.UDPConn, bufferBytes int) (*Socket, error) {
	_, _ = conn.SetReadBuffer(bufferBytes), conn.SetWriteBuffer(bufferBytes)
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &Socket{conn: conn, raw: raw, batch: ipv4.NewPacketConn(conn)}
	return s, raw.Control(s.tune)
}

// tune asks the kernel for offloads, and notes what it gives.
func (s *Socket) tune(descriptor uintptr) {
	_ = unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	s.merge = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
	_, err := unix.GetsockoptInt(int(descriptor), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	s.segment.Store(err == nil)
	s.buffer, _ = unix.GetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_RCVBUF)
}

// Offload says what the kernel does for many datagrams at once.
type Offload struct {
	Segment bool // it cuts what is sent (UDP_SEGMENT)
	Merge   bool // it merges what is received (UDP_GRO)
}

// Offload returns what the kernel does now; it may turn out later that a network interface cannot do it.
func (s *Socket) Offload() Offload { return Offload{Segment: s.segment.Load(), Merge: s.merge} }

// Buffer returns how many bytes the kernel holds for this socket, including its own overhead.
func (s *Socket) Buffer() int { return s.buffer }

// Addr returns the socket's address.
func (s *Socket) Addr() netip.AddrPort { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Conn returns the socket itself, for deadlines and options.
func (s *Socket) Conn() *net.UDPConn { return s.conn }

// Close gives the port back, leaves multicast groups, and ends a Receive.
func (s *Socket) Close() error { return s.conn.Close() }
