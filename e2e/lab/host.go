package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Control prepares a socket before it is bound or connected.
type Control func(descriptor int) error

// Congestion selects the congestion control of a TCP socket: reno, cubic or bbr.
func Congestion(name string) Control {
	return func(descriptor int) error {
		if err := unix.SetsockoptString(descriptor, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
			return fmt.Errorf("select congestion control %s: %w", name, err)
		}
		return nil
	}
}

// Do runs f on this host: on a thread of its own in the host's network, where
// sockets that f makes belong. Goroutines started by f are elsewhere.
func (h *Host) Do(f func() error) error {
	if h.space == nil {
		return fmt.Errorf("host %s is not running", h.name)
	}
	return h.space.enter(f)
}

// Dial connects from this host.
func (h *Host) Dial(ctx context.Context, network, address string, controls ...Control) (conn net.Conn, err error) {
	dialer := net.Dialer{Control: join(controls)}
	dialer.SetMultipathTCP(false)
	err = h.Do(func() error {
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens on this host.
func (h *Host) Listen(ctx context.Context, network, address string, controls ...Control) (listener net.Listener, err error) {
	config := net.ListenConfig{Control: join(controls)}
	config.SetMultipathTCP(false)
	err = h.Do(func() error {
		listener, err = config.Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// ListenPacket opens a datagram socket on this host.
func (h *Host) ListenPacket(ctx context.Context, network, address string, controls ...Control) (conn net.PacketConn, err error) {
	config := net.ListenConfig{Control: join(controls)}
	err = h.Do(func() error {
		conn, err = config.ListenPacket(ctx, network, address)
		return err
	})
	return conn, err
}

// Set writes a kernel setting of this host, named as below /proc/sys.
func (h *Host) Set(name, value string) error {
	if h.space == nil {
		return fmt.Errorf("set %s: host %s is not running", name, h.name)
	}
	return h.space.do(func() error { return os.WriteFile("/proc/sys/"+name, []byte(value), 0) })
}

// Interface is the network interface of this host's first link, which
// multicast must name.
func (h *Host) Interface() (device *net.Interface, err error) {
	if len(h.ports) == 0 {
		return nil, fmt.Errorf("host %s has no link", h.name)
	}
	err = h.Do(func() error {
		device, err = net.InterfaceByName(h.ports[0].device)
		return err
	})
	return device, err
}

func join(controls []Control) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(descriptor uintptr) {
			for _, control := range controls {
				failed = errors.Join(failed, control(int(descriptor)))
			}
		})
		return errors.Join(err, failed)
	}
}
