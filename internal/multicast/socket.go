package multicast

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// bufferBytes is what the kernel is asked to hold for a socket. It gives what
// net.core.rmem_max allows, and Buffer says how much that is.
const bufferBytes = 8 << 20

// Place is where a group is.
type Place struct {
	// Group is the group's address and port, IPv4.
	Group netip.AddrPort
	// Interface is the name of the network interface to the group. It must be given.
	Interface string
	// TTL is how many networks a packet may see: 1, which zero means too, stays in the LAN.
	TTL int
	// Loop has other sockets of this machine hear what is sent to the group as well.
	Loop bool
}

// device checks the place and returns its interface.
func (p Place) device() (*net.Interface, error) {
	if !p.Group.Addr().Is4() || !p.Group.Addr().IsMulticast() || p.Group.Port() == 0 {
		return nil, fmt.Errorf("%v is no group: give an address from 224.0.0.0 to 239.255.255.255 and a port", p.Group)
	}
	if p.TTL < 0 || p.TTL > 255 {
		return nil, fmt.Errorf("a TTL of %d: it can be 1 to 255", p.TTL)
	}
	if p.Interface == "" {
		return nil, errors.New("no interface: name the one that leads to the group")
	}
	device, err := net.InterfaceByName(p.Interface)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", p.Interface, err)
	}
	return device, nil
}

// Socket sends and receives datagrams, many with one system call.
type Socket struct {
	conn    *net.UDPConn
	batch   *ipv4.PacketConn
	reading []ipv4.Message
	arrived time.Time
	buffer  int
	segment atomic.Bool // the kernel cuts what is sent
	merge   bool        // the kernel hands over several datagrams as one
}

// Join returns a socket that hears what is sent to the group through the interface, and
// nothing else.
func Join(p Place) (*Socket, error) {
	device, err := p.device()
	if err != nil {
		return nil, err
	}
	s, err := open(p.Group.String(), alone)
	if err != nil {
		return nil, fmt.Errorf("join %v: %w", p.Group, err)
	}
	if err := s.batch.JoinGroup(device, &net.UDPAddr{IP: p.Group.Addr().AsSlice()}); err != nil {
		return nil, errors.Join(fmt.Errorf("join %v on %s: %w", p.Group, p.Interface, err), s.Close())
	}
	return s, nil
}

// Open returns a socket that sends to the group and to single machines through the interface,
// and hears what is sent to it alone, at a port of its own. Zero as the port has the kernel choose.
func Open(p Place, port uint16) (*Socket, error) {
	device, err := p.device()
	if err != nil {
		return nil, err
	}
	own, err := address(device)
	if err != nil {
		return nil, err
	}
	s, err := open(netip.AddrPortFrom(own, port).String(), private)
	if err != nil {
		return nil, fmt.Errorf("take a port of %s: %w", p.Interface, err)
	}
	err = errors.Join(s.batch.SetMulticastInterface(device), s.batch.SetMulticastTTL(max(p.TTL, 1)), s.batch.SetMulticastLoopback(p.Loop))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("send to %v through %s: %w", p.Group, p.Interface, err), s.Close())
	}
	return s, nil
}

// address returns the interface's first IPv4 address.
func address(device *net.Interface) (netip.Addr, error) {
	all, err := device.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of %s: %w", device.Name, err)
	}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil && prefix.Addr().Is4() {
			return prefix.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("interface %s has no IPv4 address: give it one, or name another", device.Name)
}

func open(at string, control func(descriptor int) error) (*Socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(descriptor uintptr) { failed = control(int(descriptor)) })
		return errors.Join(err, failed)
	}}
	packets, err := config.ListenPacket(context.Background(), "udp4", at)
	if err != nil {
		return nil, err
	}
	s := &Socket{conn: packets.(*net.UDPConn)}
	s.batch = ipv4.NewPacketConn(s.conn)
	return s, s.tune()
}

// alone has a socket that hears a group hear no other, and share the port with others that do.
func alone(descriptor int) error {
	err := unix.SetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.SetsockoptInt(descriptor, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
	}
	return err
}

// private has a socket that hears no group, and never sends in fragments: a path whose MTU
// is smaller shows that by losing all that is larger.
func private(descriptor int) error {
	err := unix.SetsockoptInt(descriptor, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
	if err == nil {
		err = unix.SetsockoptInt(descriptor, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	}
	return err
}

// tune asks the kernel for buffers and offloads, and notes what it gives.
func (s *Socket) tune() error {
	_, _ = s.conn.SetReadBuffer(bufferBytes), s.conn.SetWriteBuffer(bufferBytes)
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(descriptor uintptr) {
		_ = unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		s.merge = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
		_, err := unix.GetsockoptInt(int(descriptor), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		s.segment.Store(err == nil)
		s.buffer, _ = unix.GetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
}

// Offload is what the kernel does for many datagrams at once.
type Offload struct {
	Segment bool // it cuts what is sent (UDP_SEGMENT)
	Merge   bool // it merges what is received (UDP_GRO)
}

// Offload says what the kernel does now; it may turn out later that a network interface
// cannot do it.
func (s *Socket) Offload() Offload { return Offload{Segment: s.segment.Load(), Merge: s.merge} }

// Buffer is how many bytes the kernel holds for this socket, its own accounts included.
func (s *Socket) Buffer() int { return s.buffer }

// Addr returns where the socket is.
func (s *Socket) Addr() netip.AddrPort { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Conn returns the socket itself, for deadlines.
func (s *Socket) Conn() *net.UDPConn { return s.conn }

// Close gives the port back, leaves the group, and ends a Receive.
func (s *Socket) Close() error { return s.conn.Close() }
