package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's interface for programs that route multicast: linux/mroute.h.
const (
	mrtInit       = 200
	mrtAddPort    = 202 // MRT_ADD_VIF
	mrtAddRoute   = 204 // MRT_ADD_MFC
	useIndex      = 8   // VIFF_USE_IFINDEX
	mostPorts     = 32  // MAXVIFS
	unknownSource = 1   // IGMPMSG_NOCACHE
)

type multicastPort struct {
	number    uint16
	flags     uint8
	threshold uint8
	limit     uint32
	index     int32
	remote    [4]byte
}

type multicastRoute struct {
	source, group [4]byte
	from          uint16
	thresholds    [mostPorts]uint8
	_             [4]uint32 // counts, which the kernel does not read
}

// multicastRouter makes a router's kernel forward every group from each of its links to all others,
// like a router whose neighbours have all joined.
type multicastRouter struct {
	socket *os.File // raw IGMP, to which the kernel tells of sources that it has no route for
	ports  int
	ending sync.WaitGroup
}

// RouteMulticast makes a router pass multicast on to all of its links except the one over which it
// came, as long as the packets' time to live lasts.
func (h *Host) RouteMulticast() error {
	m := &multicastRouter{}
	err := h.Do(func() error { return m.open(h.ports) })
	if err != nil {
		return fmt.Errorf("route multicast on %s: %w", h.name, err)
	}
	h.multicast = m
	m.ending.Go(m.run)
	return nil
}

func (m *multicastRouter) open(ports []*port) error {
	if len(ports) > mostPorts {
		return fmt.Errorf("%d links, and the kernel routes between %d", len(ports), mostPorts)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_IGMP)
	if err != nil {
		return fmt.Errorf("open a raw socket: %w", err)
	}
	m.socket = os.NewFile(uintptr(fd), "multicast routes")
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, mrtInit, 1); err != nil {
		return errors.Join(fmt.Errorf("begin to route: %w", err), m.socket.Close())
	}
	for _, end := range ports {
		device, err := net.InterfaceByName(end.device)
		if err != nil {
			return errors.Join(err, m.socket.Close())
		}
		entry := multicastPort{number: uint16(m.ports), flags: useIndex, threshold: 1, index: int32(device.Index)}
		if err := m.tell(mrtAddPort, unsafe.Slice((*byte)(unsafe.Pointer(&entry)), unsafe.Sizeof(entry))); err != nil {
			return errors.Join(fmt.Errorf("add %s: %w", end.device, err), m.socket.Close())
		}
		m.ports++
	}
	return nil
}

func (m *multicastRouter) tell(option int, entry []byte) error {
	raw, err := m.socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptString(int(fd), unix.IPPROTO_IP, option, string(entry))
	})
	return errors.Join(err, failed)
}

// run gives a route to every source and group for which the kernel asks.
func (m *multicastRouter) run() {
	message := make([]byte, 2048)
	for {
		n, err := m.socket.Read(message)
		if err != nil {
			return
		}
		// This is a struct igmpmsg, in the place of an IP header whose protocol is 0.
		if n < 20 || message[8] != unknownSource || message[9] != 0 {
			continue
		}
		from := uint16(message[10]) | uint16(message[11])<<8
		_ = m.route(from, [4]byte(message[12:16]), [4]byte(message[16:20])) // if it fails, the kernel asks again
	}
}

func (m *multicastRouter) route(from uint16, source, group [4]byte) error {
	entry := multicastRoute{source: source, group: group, from: from}
	for number := range m.ports {
		if uint16(number) != from {
			entry.thresholds[number] = 1
		}
	}
	return m.tell(mrtAddRoute, unsafe.Slice((*byte)(unsafe.Pointer(&entry)), unsafe.Sizeof(entry)))
}

func (m *multicastRouter) close() error {
	err := m.socket.Close()
	m.ending.Wait()
	return err
}
