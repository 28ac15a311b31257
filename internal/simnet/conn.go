package simnet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Conn is a connection that a program holds. It has CloseWrite like a TCPConn.
type Conn struct {
	*end
	net *Network
}

// Read waits for bytes, the end or the deadline. On a frozen host it first waits for the thaw.
func (c *Conn) Read(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if len(p) > 0 {
		c.net.await(&c.readable, c.mayRead)
	}
	switch {
	case c.closed:
		return 0, c.fail("read", net.ErrClosed)
	case c.reads.passed():
		return 0, c.fail("read", os.ErrDeadlineExceeded)
	case c.in.unread() > 0 || len(p) == 0:
		return c.in.take(p), nil
	case c.err != nil:
		return 0, c.fail("read", c.err)
	}
	return 0, io.EOF
}

func (c *Conn) mayRead() bool {
	return c.closed || !c.host.frozen && (c.in.unread() > 0 || c.in.finArrived || c.gone || c.reads.passed())
}

// Write returns when all of p is in the send buffer, which fills up if the peer does not read or the way is slow.
func (c *Conn) Write(p []byte) (written int, err error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		c.net.await(&c.writable, c.mayWrite)
		if err := c.cannotWrite(); err != nil {
			return written, c.fail("write", err)
		}
		written += c.out.put(p[written:])
		if written == len(p) {
			return written, nil
		}
	}
}

func (c *Conn) mayWrite() bool {
	return c.closed || !c.host.frozen && (c.out.room() > 0 || c.cannotWrite() != nil)
}

func (c *Conn) cannotWrite() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.writes.passed():
		return os.ErrDeadlineExceeded
	case c.gone:
		return c.err
	case c.out.closing:
		return syscall.EPIPE
	}
	return nil
}

// Close sends what was written, then the end; if data was left unread, it
// resets. It never waits.
func (c *Conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.closed = true
	c.reads.stop()
	c.writes.stop()
	c.wake()
	c.close()
	return nil
}

// CloseWrite sends the end after what was written.
func (c *Conn) CloseWrite() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.net.await(&c.writable, func() bool { return c.closed || !c.host.frozen })
	switch {
	case c.closed:
		return c.fail("close", net.ErrClosed)
	case c.gone:
		return c.fail("close", syscall.ENOTCONN)
	}
	c.out.closing = true
	c.out.touch()
	c.writable.wake()
	return nil
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds reads, those in progress too.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.bound(&c.reads, t, &c.readable) }

// SetWriteDeadline bounds writes, those in progress too.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.bound(&c.writes, t, &c.writable) }

func (c *Conn) bound(d *deadline, t time.Time, s *signal) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	d.set(c.net, t, s)
	return nil
}

func (c *Conn) fail(operation string, err error) error {
	if _, number := err.(syscall.Errno); number { //nolint:errorlint // made here, never wrapped
		err = os.NewSyscallError(operation, err)
	}
	return &net.OpError{Op: operation, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
