package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

const (
	// chunk is the number of bytes after which their coming is told, so that they can
	// be passed on while the rest of their frame is still coming.
	chunk = 512 << 10
	// worth is how many bytes are worth passing on although no more are there: a link of
	// 100 Mbit/s takes a millisecond for as many. Fewer wait for more to come.
	worth = 16 << 10
	// gatherTime is how long they wait at most. Bytes that come so fast that a chunk takes
	// less are passed on in chunks.
	gatherTime = 5 * time.Millisecond
	// wakeAt is how many bytes must be there before a reader of bulk is woken: waking it for every
	// segment costs more than moving the bytes.
	wakeAt = 256 << 10
)

// expectProgress starts the neighbour's time anew.
func (c *Conn) expectProgress() {
	c.rested, c.progress, c.partial = time.Now(), 0, 0
	c.deadline = c.rested.Add(patience)
}

// hasTime is called when the time to read has passed. It reports whether the neighbour has made progress since that time was set, so that it
// has more of it.
func (c *Conn) hasTime() bool {
	return !c.gathering && time.Now().Before(c.deadline) && c.raw.SetReadDeadline(c.deadline) == nil
}

// excuse gives the neighbour back the time that has passed: this side spent it with what it had, and did not read.
func (c *Conn) excuse(since time.Time) {
	c.deadline = c.deadline.Add(time.Since(since))
	if !c.gathering {
		c.raw.SetReadDeadline(c.deadline)
	}
}

// writing bounds how many links write into files at once. Each takes a thread until the disk answers, and if that stands, thousands of
// links would take more than a process may have.
var writing = make(chan struct{}, 512)

// store has what came written. The time is not the neighbour's.
func (c *Conn) store(write func()) {
	begun := time.Now()
	c.storing.Store(true)
	if c.toFile {
		writing <- struct{}{}
		defer func() { <-writing }()
	}
	write()
	c.storing.Store(false)
	c.excuse(begun)
}

// receive moves payload to where it belongs, at most a chunk, and returns how many bytes it moved.
// If both the connection and the file are the kernel's, the bytes never leave it.
func (c *Conn) receive(to Place, length int64) (moved int64, err error) {
	c.gathering, c.toFile = false, to.File != nil
	c.excuse(c.rested)
	length = min(length, chunk)
	least := int64(worth)
	switch {
	case c.windowed.Load():
		least = 1 // the other end waits for what is read
	case c.bulk:
		least = length
	}
	// enough is called when no more bytes are there, and reports whether those that have come are
	// passed on. If not, it sees to it that the reader is woken when there are more.
	enough := func(moved int64) bool {
		if moved > 0 && moved < least && !c.gathering {
			c.gathering = true
			c.raw.SetReadDeadline(time.Now().Add(gatherTime))
			c.wakeAfter(min(length-moved, least, wakeAt))
		}
		return moved >= least
	}
	if socket, isSocket := c.data.(*net.TCPConn); isSocket && to.File != nil {
		moved, err = c.splice(to, socket, length, enough)
	} else {
		moved, err = c.copyTo(to.writer(), length, enough)
	}
	if c.gathering {
		c.wakeAfter(1)
	}
	c.note(moved)
	switch {
	case err == nil, isStorage(err):
		return moved, err
	case c.gathering && errors.Is(err, os.ErrDeadlineExceeded):
		return moved, nil
	}
	return moved, c.silent(err)
}

// wakeAfter has the reader woken when so many bytes are there. If it cannot be set, that
// costs nothing but time.
func (c *Conn) wakeAfter(bytes int64) {
	_ = c.control(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, int(bytes))
	})
}

// note keeps account of how fast bytes come.
func (c *Conn) note(moved int64) {
	c.received.Add(uint64(moved))
	c.rested = time.Now()
	if c.progress += moved; c.progress >= leastProgress {
		c.expectProgress()
	}
	if c.run += moved; c.run >= chunk {
		now := time.Now()
		c.bulk = now.Sub(c.runBegun) < gatherTime
		c.run, c.runBegun = 0, now
	}
}

// copyTo moves payload through a buffer.
func (c *Conn) copyTo(to io.Writer, length int64, enough func(moved int64) bool) (moved int64, err error) {
	buffer := taken.Get().(*[takenSize]byte)
	defer taken.Put(buffer)
	for moved < length && err == nil {
		part := buffer[:min(int64(len(buffer)), length-moved)]
		var filled int
		filled, err = c.fill(part)
		if filled > 0 {
			var written int
			var failed error
			c.store(func() { written, failed = to.Write(part[:filled]) })
			moved += int64(written)
			switch {
			case errors.Is(failed, os.ErrClosed), errors.Is(failed, wire.ErrProtocol): // the bytes have come on another stripe, or belong nowhere
				return moved, failed
			case failed != nil:
				return moved, &StorageError{failed}
			}
		}
		if filled < len(part) && enough(moved) {
			break
		}
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("read payload: %w", io.ErrUnexpectedEOF)
	}
	return moved, err
}

// fill reads what is there. In bulk it goes on as long as whole records come.
func (c *Conn) fill(part []byte) (filled int, err error) {
	for {
		c.partial = 0
		n, err := c.data.Read(part[filled:])
		filled += n
		if err != nil || !c.bulk || n < tlsRecord || filled == len(part) {
			return filled, err
		}
	}
}

// tlsRecord is how much a full TLS record carries.
const tlsRecord = 16 << 10
