package object

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReadAt fills p with the object's bytes from offset on.
func (r *Reader) ReadAt(p []byte, offset uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset > r.source.info.Length || uint64(len(p)) > r.source.info.Length-offset {
		return fmt.Errorf("read %d bytes at %d of an object of %d", len(p), offset, r.source.info.Length)
	}
	for len(p) > 0 {
		file, position, left, err := r.cursor.at(r.source.layout, offset)
		if err != nil {
			return err
		}
		n, err := file.ReadAt(p[:min(uint64(len(p)), left)], int64(position))
		switch {
		case n > 0:
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: %s is shorter than it was", ErrChanged, r.source.nameAt(offset))
		default:
			return fmt.Errorf("read %s at %d: %w", r.source.nameAt(offset), position, bare(err))
		}
		p, offset = p[n:], offset+uint64(n)
	}
	return nil
}

// nameAt is the name of the file with the byte at offset.
func (s *Source) nameAt(offset uint64) string {
	index, _, _ := s.layout.at(offset)
	if index == headIndex {
		return "the list of files of " + s.info.Name
	}
	return s.layout.entries[index].path
}

// Hole is a range of a file that has no blocks on disk, and is long enough to matter: zeros.
type Hole struct{ First, End uint64 }

const (
	// leastHole is of how many bytes a hole is told. A shorter one is read.
	leastHole = 64 << 10
	// maxHoles is how many holes are told of; what comes after them is read.
	maxHoles = 1 << 20
)

// Holes returns the holes of all files, as far as their file systems tell.
func (s *Source) Holes() (holes []Hole, err error) {
	reader := s.NewReader()
	defer func() { _ = reader.Close() }()
	for i := range s.layout.entries {
		e := &s.layout.entries[i]
		s.pulse.Beat()
		if !s.sparse[i] || e.size == 0 {
			continue
		}
		file, _, err := reader.Section(e.start)
		if err != nil {
			return nil, err
		}
		if holes = s.appendHoles(holes, file, e); len(holes) >= maxHoles {
			break
		}
	}
	return holes, nil
}

// isSparse reports whether a file has fewer blocks than its length needs.
func isSparse(info fs.FileInfo) bool {
	stat, isKernels := info.Sys().(*syscall.Stat_t)
	return isKernels && info.Mode().IsRegular() && uint64(stat.Blocks)*512 < uint64(info.Size())
}

// appendHoles appends those of a file, at their offsets in the object.
func (s *Source) appendHoles(holes []Hole, file *os.File, e *entry) []Hole {
	for at := int64(0); len(holes) < maxHoles; {
		first, err := file.Seek(at, unix.SEEK_HOLE)
		if err != nil || uint64(first) >= e.size {
			return holes // it does not tell, or there is none
		}
		at, err = file.Seek(first, unix.SEEK_DATA)
		isLast := errors.Is(err, unix.ENXIO)
		if err != nil && !isLast {
			return holes
		}
		hole := Hole{e.start + uint64(first), e.start + e.size}
		if !isLast {
			hole.End = e.start + min(uint64(at), e.size)
		}
		if hole.End-hole.First >= leastHole {
			holes = append(holes, hole)
		}
		if isLast {
			return holes
		}
		s.pulse.Beat()
	}
	return holes
}
