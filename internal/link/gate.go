package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// TLS records, of which the opening of a link consists.
const (
	recordHeader = 5
	maxRecord    = 16<<10 + 256
)

// gate is what TLS sees of a connection.
//
// Until it is open it lets no reader see further than the TLS record that is being read. So both
// ends know where the last record of an opening ends and unencrypted bytes begin. Once open, it
// makes the records of a frame leave in full segments.
type gate struct {
	net.Conn
	link   *Conn // that is open; nil before, and in plaintext
	header [recordHeader]byte
	begun  int // bytes of the header that came
	given  int // bytes of the header that were passed on
	left   int // bytes of the record's body that are to come

	more bool // what is written is followed at once by more
}

func (g *gate) Read(p []byte) (int, error) {
	if g.link != nil {
		return g.await(p)
	}
	if g.left == 0 && g.given == g.begun {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if g.given < g.begun {
		n := copy(p, g.header[g.given:])
		g.given += n
		return n, nil
	}
	n, err := g.Conn.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// await reads what comes of a record. A whole one may take longer than a neighbour may be silent: what comes of it is progress.
func (g *gate) await(p []byte) (int, error) {
	for {
		n, err := g.Conn.Read(p)
		if g.link.partial += n; g.link.partial >= leastProgress {
			g.link.expectProgress()
		}
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !g.link.hasTime() {
			return n, err
		}
	}
}

// next reads the header of the next record.
func (g *gate) next() error {
	g.begun, g.given = 0, 0
	if _, err := io.ReadFull(g.Conn, g.header[:]); err != nil {
		return err
	}
	g.begun = recordHeader
	g.left = int(binary.BigEndian.Uint16(g.header[3:]))
	if g.left > maxRecord {
		return fmt.Errorf("%w: record of %d bytes", errNotTLS, g.left)
	}
	return nil
}

// Write writes a record. If more follows, the record may wait until a segment is full.
func (g *gate) Write(p []byte) (n int, err error) {
	socket, isSocket := g.Conn.(*net.TCPConn)
	if !isSocket || !g.more {
		return g.Conn.Write(p)
	}
	if err := sendMore(socket, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// sendMore sends bytes that are followed at once by others.
func sendMore(socket *net.TCPConn, p []byte) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		p, failed = sendSome(int(fd), p)
		return failed == nil || !retried(&failed)
	})
	return errors.Join(err, failed)
}

// sendSome sends bytes that are followed at once by others, until all are sent or an error occurs. It returns the rest.
func sendSome(fd int, p []byte) (rest []byte, err error) {
	for len(p) > 0 && err == nil {
		var n int
		n, err = uninterrupted(func() (int, error) { return unix.SendmsgN(fd, p, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL) })
		p = p[max(n, 0):]
	}
	return p, err
}

// retried clears an error after which the call is to be repeated once the socket can take more, and reports whether it did.
func retried(err *error) bool {
	if errors.Is(*err, unix.EAGAIN) {
		*err = nil
		return true
	}
	return false
}

// uninterrupted makes a call again that a signal has interrupted. Waiting for the poller would not do: it wakes only a caller that
// the socket has told before that it takes nothing (EAGAIN).
func uninterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
