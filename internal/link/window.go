package link

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// SetFirstWindow bounds the window of all connections that a listener accepts from now on,
// from their first segment on: they inherit it.
func SetFirstWindow(listener net.Listener, bytes int) error {
	socket, isSocket := listener.(syscall.Conn)
	if !isSocket {
		return errors.ErrUnsupported
	}
	control, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("bound first windows: %w", err)
	}
	var failed error
	err = control.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, bytes)
	})
	return errors.Join(err, failed)
}
