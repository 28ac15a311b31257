package object

import (
	"errors"
	"fmt"

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
		if n == 0 {
			return fmt.Errorf("%w: read %s at %d: %w", ErrChanged, file.Name(), position, unexpected(err))
		}
		p, offset = p[n:], offset+uint64(n)
	}
	return nil
}

// Hole is a range of a file that has no blocks on disk: zeros.
type Hole struct{ First, End uint64 }

// maxHoles is how many holes are told of; what comes after them is read.
const maxHoles = 1 << 16

// Holes returns the holes of a file, as far as its file system tells. A directory has none.
func (s *Source) Holes() (holes []Hole, err error) {
	if s.info.Kind != File || s.info.Length == 0 {
		return nil, nil
	}
	reader := s.NewReader()
	defer func() { _ = reader.Close() }()
	file, _, err := reader.Section(0)
	if err != nil {
		return nil, err
	}
	for at := int64(0); len(holes) < maxHoles; {
		first, err := file.Seek(at, unix.SEEK_HOLE)
		if err != nil || uint64(first) >= s.info.Length {
			return holes, nil // it does not tell, or there is none
		}
		at, err = file.Seek(first, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return append(holes, Hole{uint64(first), s.info.Length}), nil
		}
		if err != nil {
			return holes, nil
		}
		holes = append(holes, Hole{uint64(first), uint64(at)})
	}
	return holes, nil
}
