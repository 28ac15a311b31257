// Package spool is a file that grows at its end while it is read from many places:
// what a session agent caches of a delivery, and what a sender keeps of a stream. What
// nobody needs any more is cut out of it, so that it takes only the room of the rest.
package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrNoRoom says that the file system is full.
var ErrNoRoom = errors.New("no room left")

// File is a spool. The file has no name: when its last descriptor is closed, or the
// process ends in whatever way, its room is free again.
type File struct {
	end  *os.File // positioned where the next byte goes
	path string

	mu       sync.Mutex
	released uint64
}

// blockSize is what holes are multiples of.
const blockSize = 4096

// Create makes an empty spool in a directory.
func Create(dir string) (*File, error) {
	end, err := unnamed(dir)
	if err != nil {
		return nil, fmt.Errorf("create spool in %s: %w", dir, roomError(err))
	}
	return &File{end: end, path: fmt.Sprintf("/proc/self/fd/%d", end.Fd())}, nil
}

func unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir+"/spool"), nil
	}
	// Not every file system can do that.
	file, err := os.CreateTemp(dir, "spool-")
	if err == nil {
		err = os.Remove(file.Name())
	}
	return file, err
}

// Seek moves to where the next byte goes, and returns the file to write it to. Only
// one goroutine writes.
func (f *File) Seek(offset uint64) (*os.File, error) {
	if _, err := f.end.Seek(int64(offset), io.SeekStart); err != nil {
		return nil, fmt.Errorf("seek in spool: %w", err)
	}
	return f.end, nil
}

// Reader returns another descriptor of the file, with a position of its own.
func (f *File) Reader() (*os.File, error) {
	reader, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	return reader, nil
}

// Release gives back the room of all before an offset. Reading it yields zeros.
func (f *File) Release(upTo uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	upTo -= upTo % blockSize
	if upTo <= f.released {
		return nil
	}
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	err := unix.Fallocate(int(f.end.Fd()), punch, int64(f.released), int64(upTo-f.released))
	if err != nil {
		return fmt.Errorf("release room of spool: %w", err)
	}
	f.released = upTo
	return nil
}

// Reset gives back all room: the spool begins again.
func (f *File) Reset() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.end.Truncate(0); err != nil {
		return fmt.Errorf("reset spool: %w", err)
	}
	f.released = 0
	return nil
}

// Close ends the spool. Readers that are open can still read.
func (f *File) Close() error { return f.end.Close() }

// IsNoRoom reports whether an error says that a file system or a quota is full.
func IsNoRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, ErrNoRoom)
}

func roomError(err error) error {
	if IsNoRoom(err) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return err
}
