package link

import (
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// bufferSize is what bytes pass through that the kernel cannot move by itself.
const bufferSize = 64 << 10

// buffers are those that nobody uses. Connections have one only while bytes move: an agent has
// hundreds, most of which wait.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func takeBuffer() *[bufferSize]byte { return buffers.Get().(*[bufferSize]byte) }

// awaitRoom waits until the socket takes something, so that nothing is read and encrypted for it before that. Who is
// eager does not wait.
func (c *Conn) awaitRoom() error {
	socket, isSocket := c.raw.(*net.TCPConn)
	if !isSocket || c.eager {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for room: %w", err)
	}
	return raw.Write(hasRoom)
}

// hasRoom tells whether a socket takes something. That it broke is told by who writes.
func hasRoom(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
	return n > 0 || err != nil
}
