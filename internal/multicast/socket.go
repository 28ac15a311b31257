package multicast

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/udp"
)

// bufferBytes is what the kernel is asked to hold for a socket.
const bufferBytes = 8 << 20

// Place is where a group is.
type Place struct {
	// Group is the group's address and port, IPv4.
	Group netip.AddrPort
	// Interface is the name of the network interface to the group. It must be given.
	Interface string
	// Address is this machine's own at the interface, by which others know it. Zero is the interface's first.
	Address netip.Addr
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

// Join returns a socket that hears what is sent to the group through the interface, and
// nothing else.
func Join(p Place) (*udp.Socket, error) {
	device, err := p.device()
	if err != nil {
		return nil, err
	}
	s, err := open(p.Group.String(), alone)
	if err != nil {
		return nil, fmt.Errorf("join %v: %w", p.Group, err)
	}
	if err := join(s, p.Group.Addr(), device.Index); err != nil {
		return nil, errors.Join(fmt.Errorf("join %v on %s: %w", p.Group, p.Interface, err), s.Close())
	}
	return s, nil
}

// Open returns a socket that sends to the group and to single machines through the interface,
// and hears what is sent to it alone, at a port of its own. Zero as the port has the kernel choose.
func Open(p Place, port uint16) (*udp.Socket, error) {
	device, err := p.device()
	if err != nil {
		return nil, err
	}
	own := p.Address
	if !own.Is4() {
		if own, err = address(device); err != nil {
			return nil, err
		}
	}
	s, err := open(netip.AddrPortFrom(own, port).String(), private)
	if err != nil {
		return nil, fmt.Errorf("take a port of %s: %w", p.Interface, err)
	}
	if err := s.Control(func(descriptor int) error { return p.route(descriptor, device.Index) }); err != nil {
		return nil, errors.Join(fmt.Errorf("send to %v through %s: %w", p.Group, p.Interface, err), s.Close())
	}
	return s, nil
}

// join has a socket hear a group at an interface.
func join(s *udp.Socket, group netip.Addr, device int) error {
	return s.Control(func(descriptor int) error {
		return unix.SetsockoptIPMreqn(descriptor, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(device)})
	})
}

// route says how far what a socket sends to the group goes, and by which interface.
func (p Place) route(descriptor, device int) error {
	loop := 0
	if p.Loop {
		loop = 1
	}
	return errors.Join(
		unix.SetsockoptIPMreqn(descriptor, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(device)}),
		unix.SetsockoptInt(descriptor, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, max(p.TTL, 1)),
		unix.SetsockoptInt(descriptor, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, loop),
	)
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

func open(at string, control func(descriptor int) error) (*udp.Socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(descriptor uintptr) { failed = control(int(descriptor)) })
		return errors.Join(err, failed)
	}}
	packets, err := config.ListenPacket(context.Background(), "udp4", at)
	if err != nil {
		return nil, err
	}
	return udp.New(packets.(*net.UDPConn), bufferBytes)
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
