package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// Source is a device that is replicated.
type Source struct {
	file   *os.File
	info   object.Info
	unused []object.Hole
}

// The time tells contents apart, and a device has none of its content: this is that of all
// of a device, and that of what a file system on it uses.
var allTime, usedTime = time.Unix(0, 0), time.Unix(1, 0)

// OpenSource opens a device that nobody writes to meanwhile, as far as mounts tell.
func OpenSource(path string) (*Source, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	s := &Source{file: file}
	size, err := sizeOf(file)
	if err == nil {
		err = s.Changed()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s.info = Content(filepath.Base(path), size)
	return s, nil
}

// Content is what receivers know of all that a device has.
func Content(name string, length uint64) object.Info {
	return object.Info{Name: name, Kind: object.File, Length: length, Mode: 0o600, Time: allTime}
}

// Info returns what receivers must know.
func (s *Source) Info() object.Info { return s.info }

// Head is zero: a device is one file.
func (s *Source) Head() uint64 { return 0 }

// ReadAt fills p with the bytes from offset on.
func (s *Source) ReadAt(p []byte, offset uint64) error {
	if n, err := s.file.ReadAt(p, int64(offset)); n < len(p) {
		return fmt.Errorf("read %s at %d: %w", s.file.Name(), offset, explained(err))
	}
	first, _ := slices.BinarySearchFunc(s.unused, offset, func(hole object.Hole, at uint64) int { return cmp.Compare(hole.End, at+1) })
	for end := offset + uint64(len(p)); first < len(s.unused) && s.unused[first].First < end; first++ {
		hole := s.unused[first]
		clear(p[max(hole.First, offset)-offset : min(hole.End, end)-offset])
	}
	return nil
}

// Holes returns what is taken for zeros. A device has something everywhere.
func (s *Source) Holes() ([]object.Hole, error) { return s.unused, nil }

// Changed returns an error if the device is used so that it can be written to: mounted and not read-only, whatever it is as
// this process sees it, or used by what shows no mount of it here, as a mount of one of its parts, a volume manager, or
// another container.
func (s *Source) Changed() error {
	number, err := numberOf(s.file)
	if err != nil {
		return err
	}
	mounted := mounts(number)
	if len(mounted) == 0 && isClaimed(s.file) {
		return fmt.Errorf("%w: %s is in use and can change while it is read: stop what uses it, or name a snapshot", ErrRefused, s.file.Name())
	}
	for _, one := range mounted {
		if one.writable {
			return fmt.Errorf("%w: %s is mounted at %s and can change while it is read: unmount it, remount it read-only, or name a snapshot", ErrRefused, s.file.Name(), one.at)
		}
	}
	return nil
}

// Close ends the source.
func (s *Source) Close() error { return s.file.Close() }

// Beside returns the same source for another sender.
func (s *Source) Beside(context.Context) send.Opened { return &beside{s} }

// beside is a source that ends with another.
type beside struct{ *Source }

// Close has nothing to do.
func (b *beside) Close() error { return nil }
