package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

const (
	// patience is how long a neighbour may be silent before it is given up.
	patience = 2 * time.Second
	// heartbeat is the longest time for which a side is silent.
	heartbeat = 500 * time.Millisecond
	// leastProgress is how many bytes must come within the patience, so that nobody
	// holds a link by dripping. Those of a TLS record that is still coming count.
	leastProgress = 256
	// slowRate is the rate, in bytes per second, below which this package keeps to it itself. The kernel would send
	// 64 KiB at once, and then nothing until these are paid for: for longer than a neighbour has patience.
	slowRate = 4 << 20
	// slowParts is how many times a second something is sent at such a rate.
	slowParts = 20
)

// ErrSilent says that the neighbour was not heard from for too long.
var ErrSilent = errors.New("neighbour is silent")

// Conn is an open link. One goroutine reads it; several may send frames.
type Conn struct {
	raw  net.Conn // as it came from the network
	data net.Conn // what frames go through: raw, or TLS over it
	gate *gate    // what TLS sees of raw
	told Answer   // what the parent was told together with the hello

	sent, received atomic.Uint64 // bytes of payload
	storing        atomic.Bool   // what came waits for its disk

	sending sync.Mutex
	slow    *rate.Limiter // of payload, if the kernel does not keep the rate
	capped  bool          // the kernel keeps a rate

	windowed atomic.Bool // the window is smaller than what a reader of bulk waits for
	window   int         // the window that the buffer was last made for; for SetWindow, which one goroutine calls

	deadline  time.Time // until then there must be progress
	progress  int64     // bytes that came since that was set,
	partial   int       // and encrypted ones, of a record that is not whole
	rested    time.Time // when this side last read
	gathering bool      // what has come waits a moment for more
	toFile    bool      // what comes goes into a file
	bulk      bool      // a chunk came fast
	run       int64     // bytes of the next one
	runBegun  time.Time
}

// Close ends the link at once.
func (c *Conn) Close() error { return c.raw.Close() }

// SetCongestion chooses the congestion control for what is sent from now on.
func (c *Conn) SetCongestion(name string) error {
	return c.control(func(fd int) error {
		return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	})
}

// SetMaxRate bounds how many bytes of payload per second are sent. It is called before
// any are.
func (c *Conn) SetMaxRate(bytesPerSecond uint64) error {
	if bytesPerSecond < slowRate {
		part := min(max(1, bytesPerSecond/slowParts), givenSize-wire.HeaderSize)
		c.slow = rate.NewLimiter(rate.Limit(bytesPerSecond), int(part))
		return nil
	}
	c.capped = true
	return c.setPacing(bytesPerSecond)
}

func (c *Conn) setPacing(bytesPerSecond uint64) error {
	return c.control(func(fd int) error {
		return unix.SetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, bytesPerSecond)
	})
}

const (
	// longRTT is the shortest round trip over which what is sent is spread.
	longRTT = 2 * time.Millisecond
	// anyRate is more than any link carries: with any rate set, the kernel spreads what is sent.
	anyRate = 1 << 40
)

// smooth has the kernel spread what is sent over the round trip, if that is long. Otherwise a connection that starts sends
// half of what is under way in one burst, and loses it where the queue is shorter, long before the path is full. If
// it cannot be set, that costs nothing but time.
func (c *Conn) smooth() {
	if !c.capped && leastRTT(c.Info()) >= longRTT {
		_ = c.setPacing(anyRate)
	}
}

// setUnsent bounds how many bytes may wait in the socket before they are sent for the first time,
// so that it takes more only when it is ready for it.
func (c *Conn) setUnsent(bytes uint64) error {
	return c.control(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, int(bytes))
	})
}

// Received returns how many bytes of payload have come; it may be called after the connection has ended.
func (c *Conn) Received() uint64 { return c.received.Load() }

// IsStoring reports whether what came waits for its disk, however long that takes. Meanwhile nothing more is read.
func (c *Conn) IsStoring() bool { return c.storing.Load() }

// Info returns what the kernel knows of the connection; nil if it is not the kernel's, or
// has ended.
func (c *Conn) Info() (info *unix.TCPInfo) {
	_ = c.control(func(fd int) (err error) {
		info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
	})
	return info
}

// control sets an option of the socket, if there is one.
func (c *Conn) control(set func(fd int) error) error {
	socket, isSocket := c.raw.(*net.TCPConn)
	if !isSocket {
		return nil
	}
	control, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("set socket option: %w", err)
	}
	var failed error
	err = control.Control(func(fd uintptr) { failed = set(int(fd)) })
	return errors.Join(err, failed)
}

// Send sends frames that are encoded already.
func (c *Conn) Send(frames []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if _, err := c.data.Write(frames); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// sendFile sends a frame whose payload is in a file.
func (c *Conn) sendFile(header wire.Header, file *os.File, at int64) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if socket, isSocket := c.data.(*net.TCPConn); isSocket && c.slow == nil {
		return c.handOver(socket, header, file, at)
	}
	return c.copyFile(header, file, at)
}

// handOver makes the kernel send the payload. The header waits for the payload, so that both leave in one train of segments.
func (c *Conn) handOver(socket *net.TCPConn, header wire.Header, file *os.File, at int64) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	begun, left := header.Append(nil), int(header.Length)
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		begun, failed = sendSome(int(fd), begun)
		for left > 0 && failed == nil {
			var n int
			n, failed = uninterrupted(func() (int, error) { return unix.Sendfile(int(fd), int(file.Fd()), &at, left) })
			c.sent.Add(uint64(max(n, 0)))
			if left -= max(n, 0); n == 0 && failed == nil {
				failed = io.ErrUnexpectedEOF // the file is shorter than it was: the link cannot go on
			}
		}
		return failed == nil || !retried(&failed)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("send frame of %d bytes: %w", header.Length, err)
	}
	return nil
}

// copyFile sends the frame through a buffer.
func (c *Conn) copyFile(header wire.Header, file *os.File, at int64) error {
	head := header.Append(nil)
	defer func() { c.gate.more = false }()
	for left := int(header.Length); left > 0; head = nil {
		part := min(left, givenSize-len(head))
		if c.slow != nil {
			part = min(part, c.slow.Burst())
			time.Sleep(c.slow.ReserveN(time.Now(), part).Delay())
		}
		c.gate.more = part < left && c.slow == nil
		if err := c.copyPart(head, file, at, part); err != nil {
			return err
		}
		at += int64(part)
		left -= part
	}
	return nil
}

// copyPart sends a part of the payload, after head if it is the first.
func (c *Conn) copyPart(head []byte, file *os.File, at int64, length int) error {
	if err := c.awaitRoom(); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	buffer := given.Get().(*[givenSize]byte)
	defer given.Put(buffer)
	begun := copy(buffer[:], head)
	part := buffer[begun : begun+length]
	if _, err := file.ReadAt(part, at); err != nil {
		return fmt.Errorf("read %d bytes to send: %w", length, err)
	}
	written, err := c.data.Write(buffer[:begun+length])
	c.sent.Add(uint64(max(0, written-begun)))
	if err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// readHeader waits for the next frame.
func (c *Conn) readHeader() (wire.Header, error) {
	var header [wire.HeaderSize]byte
	if err := c.readFull(header[:]); err != nil {
		return wire.Header{}, err
	}
	c.expectProgress()
	return wire.ParseHeader(header[:])
}

// readPayload reads a payload that is known to be small.
func (c *Conn) readPayload(length uint32) ([]byte, error) {
	payload := make([]byte, length)
	return payload, c.readFull(payload)
}

func (c *Conn) readFull(p []byte) error {
	c.gathering = false
	c.expectProgress()
	c.raw.SetReadDeadline(c.deadline)
	if _, err := io.ReadFull(c.data, p); err != nil {
		return c.silent(err)
	}
	return nil
}

// silent says what an error of reading means: a deadline that passed is a silent neighbour.
func (c *Conn) silent(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &brokenError{fmt.Errorf("%w for %v", ErrSilent, patience)}
	}
	return &brokenError{fmt.Errorf("read frame: %w", err)}
}

// brokenError says that nothing comes on a connection any more. Other stripes may go on.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

func isBroken(err error) bool {
	var broken *brokenError
	return errors.As(err, &broken)
}

// StorageError says that what came could not be written.
type StorageError struct{ Err error }

func (e *StorageError) Error() string { return e.Err.Error() }
func (e *StorageError) Unwrap() error { return e.Err }

func isStorage(err error) bool {
	var failed *StorageError
	return errors.As(err, &failed)
}
