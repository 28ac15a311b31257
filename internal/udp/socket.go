package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Socket sends and receives datagrams, many with one system call.
type Socket struct {
	file       *os.File        // in blocking mode, so that Go's poller does not have it: see waiting
	raw        syscall.RawConn // of file
	descriptor int             // of file; for those who wait, whom Close waits for
	waiting    waiting
	address    netip.AddrPort
	isIPv4     bool
	buffer     int
	segment    atomic.Bool // the kernel cuts what is sent
	merge      bool        // the kernel hands over several datagrams as one
	isClosed   atomic.Bool

	// What follows belongs to the one who receives.
	reading *incoming // nil until anything is read
	arrived time.Time
	pause   pause
}

// New takes over a connection, and asks the kernel for buffers of so many bytes. The kernel gives
// at most what net.core.rmem_max and wmem_max allow; Buffer says how much that is.
func New(conn *net.UDPConn, bufferBytes int) (*Socket, error) {
	_, _ = conn.SetReadBuffer(bufferBytes), conn.SetWriteBuffer(bufferBytes)
	descriptor, err := takeOver(conn)
	if err != nil {
		return nil, fmt.Errorf("take over a socket: %w", err)
	}
	file := os.NewFile(uintptr(descriptor), "udp")
	s := &Socket{file: file, descriptor: descriptor, address: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	if s.raw, err = file.SyscallConn(); err == nil {
		err = s.Control(s.tune)
	}
	if err == nil {
		s.waiting, err = newWaiting(descriptor)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare a socket: %w", err), file.Close())
	}
	return s, nil
}

// takeOver closes a connection, and returns a descriptor of its socket that waits, as the kernel has it by itself.
func takeOver(conn *net.UDPConn) (descriptor int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(of uintptr) {
		if descriptor, failed = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0); failed == nil {
			failed = unix.SetNonblock(descriptor, false)
		}
	})
	return descriptor, errors.Join(err, failed, conn.Close())
}

// closeAfter is after how long who waits for room looks whether the socket has been closed.
var closeAfter = unix.NsecToTimeval(int64(100 * time.Millisecond))

// tune asks the kernel for offloads, and notes what it gives.
func (s *Socket) tune(descriptor int) error {
	_ = unix.SetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	s.merge = unix.SetsockoptInt(descriptor, unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
	_, err := unix.GetsockoptInt(descriptor, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	s.segment.Store(err == nil)
	s.buffer, _ = unix.GetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_RCVBUF)
	_ = unix.SetsockoptTimeval(descriptor, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &closeAfter)
	family, err := unix.GetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_DOMAIN)
	s.isIPv4 = family == unix.AF_INET
	return err
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
func (s *Socket) Addr() netip.AddrPort { return s.address }

// Control calls a function with the socket's descriptor, which stays valid that long.
func (s *Socket) Control(act func(descriptor int) error) error {
	var failed error
	if err := s.raw.Control(func(descriptor uintptr) { failed = act(int(descriptor)) }); err != nil {
		return s.orClosed(err)
	}
	return failed
}

// SetReadDeadline has Receive and ReceiveOnce end at a time, also those that wait already.
func (s *Socket) SetReadDeadline(at time.Time) error {
	return s.orClosed(s.waiting.file.SetReadDeadline(at))
}

// orClosed has what failed since the socket is closed say that.
func (s *Socket) orClosed(err error) error {
	if err != nil && s.isClosed.Load() {
		return net.ErrClosed
	}
	return err
}

// Close gives the port back, leaves multicast groups, and ends a Receive.
func (s *Socket) Close() error {
	if s.isClosed.Swap(true) {
		return net.ErrClosed
	}
	return errors.Join(s.waiting.close(), s.file.Close())
}
