package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

// Source is a device that is replicated.
type Source struct {
	file *os.File
	info object.Info
}

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
	// The time tells contents apart, and a device has none of its content.
	s.info = object.Info{Name: filepath.Base(path), Kind: object.File, Length: size, Mode: 0o600, Time: time.Unix(0, 0)}
	return s, nil
}

// Info returns what receivers must know.
func (s *Source) Info() object.Info { return s.info }

// ReadAt fills p with the bytes from offset on.
func (s *Source) ReadAt(p []byte, offset uint64) error {
	if n, err := s.file.ReadAt(p, int64(offset)); n < len(p) {
		return fmt.Errorf("read %s at %d: %w", s.file.Name(), offset, err)
	}
	return nil
}

// Holes returns none: a device has something everywhere.
func (s *Source) Holes() ([]object.Hole, error) { return nil, nil }

// Changed says whether the device is mounted so that it can be written to.
func (s *Source) Changed() error {
	number, err := numberOf(s.file)
	if err != nil {
		return err
	}
	for _, one := range mounts(number) {
		if !strings.HasPrefix(one.options, "ro") {
			return fmt.Errorf("%w: %s is mounted at %s and can change while it is read: unmount it, remount it read-only, or name a snapshot", ErrRefused, s.file.Name(), one.at)
		}
	}
	return nil
}

// Close ends the source.
func (s *Source) Close() error { return s.file.Close() }
