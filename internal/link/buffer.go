package link

import (
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Bytes that the kernel cannot move by itself pass through buffers. A connection has a buffer only while bytes move: an
// agent has hundreds of connections, and most of them wait.
var (
	// taken buffers gather what comes, so that it is written in one piece.
	taken = sync.Pool{New: func() any { return new([takenSize]byte) }}
	// given buffers hold the next TLS record to be sent. They are small because a socket that took only a part of one
	// keeps it until it takes the rest.
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

// hasRoom reports whether a socket takes something. If it is broken, the write that follows says so.
func hasRoom(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
	return n > 0 || err != nil
}
