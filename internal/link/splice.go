package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
)

// pipe is what bytes pass through between a socket and a file, in the kernel.
type pipe struct {
	read, write int
	dropped     runtime.Cleanup // closes it if nobody did
}

// pipeSize is how much a pipe holds.
const pipeSize = 1 << 20

// pipes are the pipes that nobody uses; those that the garbage collector drops are closed.
var pipes = sync.Pool{New: func() any { return nil }}

func newPipe() (*pipe, error) {
	if p, kept := pipes.Get().(*pipe); kept {
		return p, nil
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	// A smaller one will do, too.
	_, _ = unix.FcntlInt(uintptr(ends[0]), unix.F_SETPIPE_SZ, pipeSize)
	p := &pipe{read: ends[0], write: ends[1]}
	p.dropped = runtime.AddCleanup(p, closeEnds, ends)
	return p, nil
}

func (p *pipe) close() {
	p.dropped.Stop()
	closeEnds([2]int{p.read, p.write})
	runtime.KeepAlive(p) // otherwise it might be collected before the cleanup is stopped
}

func closeEnds(ends [2]int) {
	unix.Close(ends[0])
	unix.Close(ends[1])
}

// splice has the kernel move bytes from a socket into a file. It returns how many it moved: all, or
// enough of them, or those before an error.
func (c *Conn) splice(to Place, socket *net.TCPConn, length int64, enough func(moved int64) bool) (moved int64, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	file, err := to.File.SyscallConn()
	if err != nil {
		return 0, err
	}
	p, err := newPipe()
	if err != nil { // too many files are open: that is not the neighbour's fault, and a buffer will do
		return c.copyTo(to.writer(), length, enough)
	}
	s := &splicing{pipe: p, to: file, at: to.At, length: length, left: length, enough: enough, full: to.Full, store: c.store}
	err = raw.Read(s.step)
	if s.held > 0 { // bytes in it that nobody wants
		p.close()
	} else {
		pipes.Put(p)
	}
	return length - s.left, errors.Join(err, s.err)
}

// splicing is one splice under way.
type splicing struct {
	pipe   *pipe
	to     syscall.RawConn // of a file that another goroutine may close
	at     int64
	length int64
	left   int64 // bytes that the file still lacks
	held   int   // bytes in the pipe
	enough func(moved int64) bool
	full   func() bool // see Place
	store  func(write func())
	err    error
}

// step moves what is there, and reports whether splice need not wait for more.
func (s *splicing) step(fd uintptr) (done bool) {
	for s.left > 0 {
		n, err := unix.Splice(int(fd), nil, s.pipe.write, nil, int(min(s.left, pipeSize)), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return s.enough(s.length - s.left)
		case err != nil:
			s.err = fmt.Errorf("read payload: %w", err)
			return true
		case n == 0:
			s.err = fmt.Errorf("read payload: %w", io.ErrUnexpectedEOF)
			return true
		}
		s.held = int(n)
		if s.store(s.empty); s.err != nil {
			return true
		}
	}
	return true
}

// empty moves what is in the pipe into the file.
func (s *splicing) empty() {
	err := s.to.Control(func(fd uintptr) {
		for s.held > 0 && s.err == nil {
			s.write(int(fd))
		}
	})
	if err != nil { // the file is closed: what belongs there has come on another stripe
		s.err = err
	}
}

func (s *splicing) write(fd int) {
	n, err := unix.Splice(s.pipe.read, nil, fd, &s.at, s.held, unix.SPLICE_F_MOVE)
	switch {
	case errors.Is(err, unix.EINTR):
		return
	case err == nil && n == 0:
		err = io.ErrShortWrite
	}
	if err != nil && s.full != nil && noroom.Is(err) && s.full() {
		return // what is in the pipe will be written again
	}
	if err != nil {
		s.err = &StorageError{os.NewSyscallError("splice", err)}
		return
	}
	s.held -= int(n)
	s.left -= n
}
