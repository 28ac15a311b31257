package lab

import (
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// kernelQueue is how many packets can wait inside a TUN or TAP end for the emulator. It only
// bridges the time until the emulator's thread runs; the link's own queue is in the emulator.
const kernelQueue = 20_000

func (p *port) space() *space {
	switch owner := p.owner.(type) {
	case *Host:
		return owner.space
	case *LAN:
		return owner.space
	default:
		panic(fmt.Sprintf("lab: a link ends at a %T", owner))
	}
}

// framing is Ethernet where a bridge is at either end, and bare packets, which
// need no address resolution, elsewhere.
func (w *Link) framing() link.Framing {
	for _, end := range w.ends {
		if _, ok := end.owner.(*LAN); ok {
			return link.EthernetFrames
		}
	}
	return link.BarePackets
}

// openTap makes the device of p and returns the descriptor of its other side.
func (p *port) openTap(framing link.Framing) (fd int, err error) {
	kind := uint16(unix.IFF_TUN)
	if framing == link.EthernetFrames {
		kind = unix.IFF_TAP
	}
	err = p.space().do(func() error {
		fd, err = unix.Open(tunDevice, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", tunDevice, err)
		}
		request, err := unix.NewIfreq(p.device)
		if err != nil {
			return err
		}
		request.SetUint16(kind | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			_ = unix.Close(fd)
			return fmt.Errorf("make device %s: %w", p.device, err)
		}
		return nil
	})
	return fd, err
}

// cable makes a plain virtual cable between the two ends.
func (w *Link) cable(handle *netlink.Handle) error {
	near, far := w.ends[0], w.ends[1]
	return handle.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: near.device, MTU: w.mtu(), TxQLen: 1000},
		PeerName:      far.device,
		PeerNamespace: netlink.NsFd(far.space().net.Fd()),
		PeerMTU:       uint32(w.mtu()),
	})
}

// handleIn talks to the kernel about the network of s.
func handleIn(s *space) (*netlink.Handle, error) {
	handle, err := netlink.NewHandleAt(netns.NsHandle(s.net.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return handle, nil
}

// within calls f with a handle for the network of s.
func within(s *space, f func(*netlink.Handle) error) error {
	handle, err := handleIn(s)
	if err != nil {
		return err
	}
	defer handle.Close()
	return f(handle)
}

// prepare makes the port ready to send packets by one shape, and to receive them by another.
func (p *port) prepare(sends, receives link.Shape) error {
	if err := within(p.space(), p.raise); err != nil {
		return err
	}
	if p.link.packets && !p.link.isEmulated() {
		if err := p.withoutOffloads(); err != nil {
			return err
		}
	}
	if !p.link.byKernel {
		return nil
	}
	return within(p.space(), func(handle *netlink.Handle) error {
		if receives.Loss > 0 {
			if err := p.lose(handle, receives.Loss); err != nil {
				return err
			}
		}
		return p.bucket(handle, sends)
	})
}

// raise gives the port its address or its place in the bridge, and turns it on.
func (p *port) raise(handle *netlink.Handle) error {
	device, err := handle.LinkByName(p.device)
	if err != nil {
		return fmt.Errorf("find %s: %w", p.device, err)
	}
	if p.link.isEmulated() {
		if err := handle.LinkSetTxQLen(device, kernelQueue); err != nil {
			return fmt.Errorf("set queue of %s: %w", p.device, err)
		}
		if err := handle.LinkSetMTU(device, p.link.mtu()); err != nil {
			return fmt.Errorf("set MTU of %s: %w", p.device, err)
		}
	}
	if err := p.join(handle, device); err != nil {
		return err
	}
	return handle.LinkSetUp(device)
}

func (p *port) join(handle *netlink.Handle, device netlink.Link) error {
	if _, ok := p.owner.(*LAN); ok {
		bridge, err := handle.LinkByName(bridgeName)
		if err != nil {
			return fmt.Errorf("find the bridge: %w", err)
		}
		return handle.LinkSetMaster(device, bridge)
	}
	address := &netlink.Addr{IPNet: ipNet(p.address)}
	if err := handle.AddrAdd(device, address); err != nil {
		return fmt.Errorf("give %s to %s: %w", p.address, p.device, err)
	}
	return nil
}

// carrierPatience bounds how long a device may take to notice its cable; the
// kernel looks once a second at most.
const carrierPatience = 5 * time.Second

// awaitCarrier returns when the device forwards packets.
func (p *port) awaitCarrier(handle *netlink.Handle) error {
	deadline := time.Now().Add(carrierPatience)
	for {
		device, err := handle.LinkByName(p.device)
		if err != nil {
			return fmt.Errorf("find %s: %w", p.device, err)
		}
		attributes := device.Attrs()
		if attributes.Flags&net.FlagRunning != 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s of %s has no carrier after %v", p.device, p.owner.Name(), carrierPatience)
		}
		pause(time.Millisecond)
	}
}
