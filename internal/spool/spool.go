// Package spool is a run of bytes that grows at its end while it is read from many places: what a
// session agent caches of a delivery, and what a sender keeps of a stream. Bytes that nobody needs
// any more are given back from its beginning.
//
// It is kept in segments, each a file without a name, so that the room is free again however the
// process ends. Giving back means closing whole segments, never punching holes: bytes that sendfile
// has queued are still pages of the file until the other end has read them, and the kernel
// overwrites a page that is partly cut. A file that is closed only forgets its pages.
package spool

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
)

// Spool is a run of bytes in files. Bytes after its end may be written in any order; bytes before it may be read.
type Spool struct {
	dir     string
	segment uint64 // how many bytes a segment holds

	mu    sync.Mutex
	files map[uint64]*os.File // by number; the n-th holds the bytes from n*segment on
	first uint64              // segments before this one are gone
}

// New returns an empty spool in a directory. segment is the number of bytes that it gives back at once.
func New(dir string, segment uint64) *Spool {
	return &Spool{dir: dir, segment: segment, files: make(map[uint64]*os.File)}
}

// Section returns where to put the bytes from an offset on: a file, the position in it, and how many fit there.
func (s *Spool) Section(offset uint64) (file *os.File, at, room uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := offset / s.segment
	if file = s.files[number]; file == nil {
		if file, err = unnamed(s.dir); err != nil {
			return nil, 0, 0, fmt.Errorf("create spool in %s: %w", s.dir, noroom.Named(err))
		}
		s.files[number] = file
	}
	at = offset % s.segment
	return file, at, s.segment - at, nil
}

// unnamed makes a file without a name.
func unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir+"/spool"), nil
	}
	// Somebody may have removed the directory, as a clean-up does: what is in the files does not need it.
	if errors.Is(err, unix.ENOENT) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	// Not every file system can make a file that never had a name.
	file, err := os.CreateTemp(dir, "spool-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close()) // with a name it would outlive the process
	}
	return file, nil
}

// At returns where the bytes from an offset on are: a file, the position in it, and how many more
// it can hold. They must have been written, and must not be released before they are read.
func (s *Spool) At(offset uint64) (file *os.File, at, most uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file = s.files[offset/s.segment]
	if file == nil {
		return nil, 0, 0, fmt.Errorf("read spool at %d: it is not there", offset)
	}
	at = offset % s.segment
	return file, at, s.segment - at, nil
}

// Release gives back the room of whole segments before an offset. The time that it takes depends on the number of
// segments, not on the offset.
func (s *Spool) Release(upTo uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if upTo/s.segment <= s.first {
		return nil
	}
	s.first = upTo / s.segment
	var failed error
	for number := range s.files {
		if number < s.first {
			failed = errors.Join(failed, s.drop(number))
		}
	}
	return failed
}

// Cut gives back the room of all bytes from an offset on, which may be partly written. Nobody may read or write there.
func (s *Spool) Cut(from uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, size := from/s.segment, from%s.segment
	var failed error
	for number, file := range s.files {
		switch {
		case number > last || number == last && size == 0:
			failed = errors.Join(failed, s.drop(number))
		case number == last:
			failed = errors.Join(failed, file.Truncate(int64(size)))
		}
	}
	return failed
}

// drop gives back a segment. It is called with s.mu held.
func (s *Spool) drop(number uint64) error {
	file := s.files[number]
	delete(s.files, number)
	return file.Close()
}

// Reset gives back all room. The spool can go on at any offset.
func (s *Spool) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = 0
	var failed error
	for number := range s.files {
		failed = errors.Join(failed, s.drop(number))
	}
	return failed
}

// Files returns how many files are open.
func (s *Spool) Files() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files)
}

// Close gives back all room.
func (s *Spool) Close() error { return s.Reset() }
