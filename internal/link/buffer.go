package link

import (
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Bytes that the kernel cannot move by itself pass through buffers. A connection has one only while its bytes move:
// an agent has hundreds of connections, most of which wait.
var (
	// taken buffers gather what comes, so that it is written in one piece.
	taken = sync.Pool{New: func() any { return new([takenSize]byte) }}
	// given hold one TLS record's worth of what is about to be sent. They are small: a socket that has taken only a part
	// keeps its buffer until it takes the rest.
	given = sync.Pool{New: func() any { return new([givenSize]byte) }}
)

const (
	takenSize = 64 << 10
	givenSize = tlsRecord
)

// awaitRoom waits until the socket takes something, so that nothing is read and encrypted for it before that.
func (c *Conn) awaitRoom() error {
	socket, isSocket := c.raw.(*net.TCPConn)
	if !isSocket {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for room: %w", err)
	}
	return raw.Write(hasRoom)
}

// hasRoom reports whether a socket takes something, or has broken: whoever writes finds that out.
func hasRoom(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
	return n > 0 || err != nil
}
