package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// measureTime is how long one measurement may take.
const measureTime = 2 * time.Second

// RoundTrip returns the round trip to an address. It opens a connection, says nothing, and closes
// it. The time is the kernel's own, from SYN to SYN-ACK: it does not include the programs at either
// end, however busy they are. Only where the kernel measured none is it how long opening took.
func RoundTrip(ctx context.Context, dialer Dialer, address string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	raw, took, err := dial(ctx, dialer, address)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", address, err)
	}
	raw.Close()
	return took, nil
}

// dial opens a connection, and measures the round trip.
func dial(ctx context.Context, dialer Dialer, address string) (net.Conn, time.Duration, error) {
	began := time.Now()
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, 0, err
	}
	took := time.Since(began)
	if socket, isSocket := raw.(syscall.Conn); isSocket {
		measured, err := openingTime(socket)
		if err != nil {
			raw.Close()
			return nil, 0, err
		}
		took = cmp.Or(measured, took)
	}
	return raw, took, nil
}

// openingTime returns the round trip that the kernel measured while the connection was opened; 0 if it
// measured none, as where it sent the SYN again and no timestamp says which one was answered. It has
// to be called before anything is sent: a peer cannot guess the number that a SYN-ACK has to
// name, but it could acknowledge early bytes that it can predict.
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

// SaidNothing reports whether a link was not accepted because the other end closed it without
// a word, as a peer does that only measures, or that did not need its contact in the end.
func SaidNothing(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, errSilent) }
