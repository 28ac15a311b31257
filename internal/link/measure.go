package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/identity"
)

// measureTime is how long one measurement may take.
const measureTime = 2 * time.Second

// RoundTrip returns how long it takes to an address and back. It opens a connection, says
// nothing, and closes it. The time is the kernel's own, from SYN to SYN-ACK: neither end's
// programs are in it, however busy they are.
func RoundTrip(ctx context.Context, dialer Dialer, address string) (time.Duration, error) {
	return measure(ctx, dialer, address, func(context.Context, net.Conn) error { return nil })
}

// ProveRoundTrip is RoundTrip to a peer that has to prove that it is the one at the address.
func ProveRoundTrip(ctx context.Context, dialer Dialer, address string, security identity.TLS, peer identity.ID) (time.Duration, error) {
	return measure(ctx, dialer, address, func(ctx context.Context, raw net.Conn) error {
		secure := tls.Client(raw, security.Dial(peer, protocol))
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("measure %s at %s: %w", peer, address, err)
		}
		return secure.Close()
	})
}

func measure(ctx context.Context, dialer Dialer, address string, prove func(context.Context, net.Conn) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	began := time.Now()
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", address, err)
	}
	defer raw.Close()
	took := time.Since(began)
	if socket, isSocket := raw.(syscall.Conn); isSocket {
		if took, err = openingTime(socket); err != nil {
			return 0, err
		}
	}
	return took, prove(ctx, raw)
}

// openingTime returns the round trip that the kernel saw when a connection was opened. It
// has to be asked before anything is sent: a peer cannot know the number that a SYN-ACK has
// to name, but it could acknowledge early what it can foresee.
func openingTime(socket syscall.Conn) (time.Duration, error) {
	control, err := socket.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("read round trip: %w", err)
	}
	var info *unix.TCPInfo
	var failed error
	err = control.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("read round trip: %w", err)
	}
	return time.Duration(info.Rtt) * time.Microsecond, nil
}

// SaidNothing tells whether a link was not accepted because the other end closed it at
// once, as one does that only measures.
func SaidNothing(err error) bool { return errors.Is(err, io.EOF) }
