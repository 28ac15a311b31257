package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// largestFirst is the largest window that a handshake can announce, as windows are not scaled in it.
const largestFirst = 64 << 10

// Unbounded is a window that does not bound anything.
const Unbounded = 1 << 30

// SetFirstWindow bounds the window of all connections that a listener accepts from now on, from their first segment on.
//
// It sets the listener's buffer, of which half is a window. Accepted sockets also inherit a clamp
// of the windows, but with a small clamp the kernel would choose a small window scale, and the
// connection could never have more than 64 or 128 KiB. The buffer is unlocked again, so that it can
// grow as the window that an accepted connection is allowed does.
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
		failed = setBuffer(int(fd), min(bytes, largestFirst), unlocked)
	})
	return errors.Join(err, failed)
}

// What SO_BUF_LOCK says of a socket's receive buffer.
const (
	unlocked = 0 // the kernel enlarges it as it sees fit, and the window's clamp with it
	locked   = 2 // SOCK_RCVBUF_LOCK: it stays as it is
)

// canLock reports whether the kernel lets a buffer be locked and unlocked, as it does since 5.15. Otherwise a buffer that was set
// would stay as small as that for ever: then it is left alone, and windows are bounded by their clamp, as long as that holds.
var canLock = sync.OnceValue(func() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK, unlocked) == nil
})

// HoldsWindows reports whether the kernel keeps the windows that it is told.
func HoldsWindows() bool { return canLock() }

// setBuffer sets the receive buffer; the kernel doubles the given size.
func setBuffer(fd, bytes, lock int) error {
	if !canLock() {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK, lock)
}

// largestHeld is the largest window for which the buffer is not left to the kernel.
// Whenever the kernel enlarges a buffer, it sets the clamp to the part of it that can be a window.
const largestHeld = 256 << 10

// spare is how many times the buffer that its window needs a connection may have. A connection that has more gets a smaller buffer
// when its window becomes smaller: if the kernel finds that segments are larger than it thought, and nobody sets the window again,
// the buffer alone bounds it.
const spare = 4

// SetWindow bounds the window that the other end is shown, and so how many bytes it sends in a
// round trip. An increase takes effect at once, a decrease when the window shown before is used up.
//
// It is to be called again from time to time, even with the same window: when the kernel learns that
// segments are larger than it thought, it sets the clamp to the part of the buffer that can be a window.
func (c *Conn) SetWindow(bytes int) error {
	c.windowed.Store(bytes < wakeAt)
	return c.control(func(fd int) error {
		if bytes != c.window {
			fits, err := prepareBuffer(fd, bytes)
			if err != nil {
				return err
			}
			if fits {
				c.window = bytes
			}
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, bytes)
	})
}

// prepareBuffer gives a socket a buffer that is large enough for a window, not much larger, and that the kernel
// does not enlarge. If the window is large, or the buffer must not be, the kernel may. It reports whether the buffer fits: a buffer
// that has to hold what the other end was shown before is made smaller when that is used up.
func prepareBuffer(fd, bytes int) (fits bool, err error) {
	has, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || !canLock() {
		return true, err
	}
	need := 2 * bytes
	tooLarge := bytes <= largestHeld && has > spare*need
	fits = !tooLarge || isUsedUp(fd, bytes)
	if bytes <= largestHeld && has < need || tooLarge && fits {
		if err := setBuffer(fd, need, locked); err != nil {
			return false, err
		}
		if has, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil {
			return false, err
		}
	}
	lock := locked
	if has < need {
		lock = unlocked
	}
	return fits, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK, lock)
}

// isUsedUp reports whether the other end has used up any larger window that it was shown: until then, that needs room. Kernels
// before 6.2 do not tell.
func isUsedUp(fd, bytes int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.Rcv_wnd > 0 && int(info.Rcv_wnd) <= bytes
}
