package link

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/testdisk"
)

// inode identifies a pipe as long as it is open; it is zero once that is closed.
func (p *pipe) inode(t *testing.T) uint64 { return inodeOf(t, p.read) }

func inodeOf(t *testing.T, fd int) uint64 {
	t.Helper()
	var stat unix.Stat_t
	switch err := unix.Fstat(fd, &stat); {
	case errors.Is(err, unix.EBADF):
		return 0
	case err != nil:
		t.Fatal(err)
	}
	return stat.Ino
}

// Pipes that were in use at the same time and no longer are get closed, not only forgotten.
func TestPipesThatNobodyUsesAreClosed(t *testing.T) {
	open := make(map[uint64]int) // inode → descriptor
	for _, p := range newPipes(t, 20) {
		open[p.inode(t)] = p.read
		pipes.Put(p)
	}
	for end := time.Now().Add(time.Minute); len(open) > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d of 20 pipes are open", len(open))
		}
		runtime.GC()
		for inode, fd := range open {
			if inodeOf(t, fd) != inode {
				delete(open, inode)
			}
		}
	}
}

func newPipes(t *testing.T, number int) (made []*pipe) {
	t.Helper()
	for range number {
		p, err := newPipe()
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, p)
	}
	return made
}

// A pipe that its user has closed is not closed again when it is dropped: its descriptors may be another's by then.
func TestPipesAreClosedOnce(t *testing.T) {
	for _, p := range newPipes(t, 20) {
		p.close()
	}
	for _, p := range newPipes(t, 20) { // with the same descriptors
		defer p.close()
		before := p.inode(t)
		runtime.GC()
		runtime.GC()
		if after := p.inode(t); before == 0 || after != before {
			t.Fatalf("what had the descriptors of a closed pipe is %d, and was %d", after, before)
		}
	}
}

// On a slow link every receive ends by its deadline; that costs no pipe.
func TestPipesAreKeptAfterADeadline(t *testing.T) {
	child, _ := sockets(t)
	if err := child.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "sink"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for range 100 { // under the race detector the pool drops at random what is put into it
		p, err := newPipe()
		if err != nil {
			t.Fatal(err)
		}
		before := p.inode(t)
		pipes.Put(p)
		moved, err := (&Conn{raw: child}).splice(Place{File: file}, child, 1<<10, func(int64) bool { return false })
		if moved != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes, %v", moved, err)
		}
		if p, err = newPipe(); err != nil {
			t.Fatal(err)
		}
		after := p.inode(t)
		p.close()
		if after == before {
			return
		}
	}
	t.Error("a pipe that was empty was thrown away, every time")
}

// If no more files may be open there is no pipe, but the bytes arrive all the same: it is not the neighbour's fault.
func TestWithoutAPipeAllComes(t *testing.T) {
	child, parent := sockets(t)
	want := []byte("what comes")
	if _, err := parent.Write(want); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "sink"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	for p, err := newPipe(); err == nil; p, err = newPipe() { // those that others have left in the pool
		p.close()
	}
	conn := &Conn{raw: child, data: child}
	conn.expectProgress()
	if moved, err := conn.receive(Place{File: file}, int64(len(want))); int(moved) != len(want) || err != nil {
		t.Errorf("%d bytes, %v", moved, err)
	}
	got := make([]byte, len(want))
	if _, err := file.ReadAt(got, 0); err != nil || string(got) != string(want) {
		t.Errorf("%q is there: %v", got, err)
	}
}

// The time until a disk has room does not count as the neighbour's.
func TestSpliceExcusesTheDisk(t *testing.T) {
	child, parent := sockets(t)
	if _, err := parent.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(testdisk.Memory(t, "size=64k"), "sink"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	filler := file.Name() + "-filler"
	testdisk.Fill(t, filler)
	const takes = 100 * time.Millisecond
	conn := &Conn{raw: child, data: child}
	full := func() bool {
		if !conn.IsStoring() {
			t.Error("what came does not wait for its disk")
		}
		time.Sleep(takes)
		return os.Remove(filler) == nil
	}
	conn.expectProgress()
	before := conn.deadline
	if moved, err := conn.receive(Place{File: file, Full: full}, 1<<20); moved != 100 || err != nil {
		t.Fatalf("%d bytes, %v", moved, err)
	}
	if conn.IsStoring() {
		t.Error("what was written waits for its disk")
	}
	if conn.deadline.Sub(before) < takes {
		t.Errorf("of %v the neighbour was given %v", takes, conn.deadline.Sub(before))
	}
}

// sockets are both ends of a connection over loopback.
func sockets(t *testing.T) (one, other *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}
