package multicast

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/udp"
)

// Footing is what the interface of a place is to the kernel, and its first address. An interface that is made anew by the same name, as a
// bond or a VLAN is when the network is started again, is another: a socket that has joined on the former hears nothing any more.
type Footing struct {
	index   uint32
	address netip.Addr
}

// FootingOf returns what the interface of a place is now, for a socket that was opened there.
func FootingOf(s *udp.Socket, p Place) (f Footing, err error) {
	err = s.Control(func(descriptor int) (err error) {
		f, err = footing(descriptor, p.Interface)
		return err
	})
	if err != nil {
		return f, fmt.Errorf("look at interface %s: %w", p.Interface, err)
	}
	return f, nil
}

// footing asks a socket, and not the thread that happens to look: they may be of several networks.
func footing(descriptor int, device string) (f Footing, err error) {
	asked, err := unix.NewIfreq(device)
	if err != nil {
		return f, err
	}
	if err = unix.IoctlIfreq(descriptor, unix.SIOCGIFINDEX, asked); err != nil {
		return f, err
	}
	f.index = asked.Uint32()
	if err = unix.IoctlIfreq(descriptor, unix.SIOCGIFADDR, asked); err != nil {
		return f, err
	}
	own, err := asked.Inet4Addr()
	if err != nil {
		return f, err
	}
	f.address, _ = netip.AddrFromSlice(own)
	return f, nil
}

// Carry has what a socket sends to its group go over the interface as it is now.
func (f Footing) Carry(s *udp.Socket) error {
	return s.Control(func(descriptor int) error {
		return unix.SetsockoptIPMreqn(descriptor, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(f.index)})
	})
}

// Hear has a socket that has joined a group hear it by the interface as it is now.
func (f Footing) Hear(s *udp.Socket, group netip.AddrPort) error {
	err := join(s, group.Addr(), int(f.index))
	if errors.Is(err, unix.EADDRINUSE) { // it has another address, and is the same
		return nil
	}
	return err
}
