package paper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/groupcast/groupcast/internal/object"
)

// gathered is how much that belongs together is written at once, in bytes.
const gathered = 256 << 10

// landing is a file that is received. It is there under its name when it is whole and on
// disk, and not before.
type landing struct {
	name    string
	partial *os.File
	offset  int64 // of pending
	pending []byte
}

func land(name string) (*landing, error) {
	if _, err := os.Lstat(name); err == nil {
		return nil, fmt.Errorf("receive into %s: it is there already; remove it, or choose another name", name)
	}
	partial, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.partial")
	if err != nil {
		return nil, fmt.Errorf("receive into %s: %w", name, err)
	}
	return &landing{name: name, partial: partial}, nil
}

// store notes bytes, and writes them with those that belong before them.
func (l *landing) store(offset int64, payload []byte) error {
	if offset != l.offset+int64(len(l.pending)) || len(l.pending) >= gathered {
		if err := l.flush(); err != nil {
			return err
		}
		l.offset = offset
	}
	l.pending = append(l.pending, payload...)
	return nil
}

// flush writes what is noted.
func (l *landing) flush() error {
	if len(l.pending) == 0 {
		return nil
	}
	n, err := l.partial.WriteAt(l.pending, l.offset)
	l.offset, l.pending = l.offset+int64(n), l.pending[:0]
	if err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	return nil
}

// complete has the file appear, of this length. A sync that fails is not tried again: what it
// left on the disk is not known.
func (l *landing) complete(length int64) error {
	err := l.flush()
	for _, step := range []func() error{
		func() error { return l.partial.Truncate(length) },
		func() error { return l.partial.Chmod(0o644) },
		l.partial.Sync,
		func() error { return os.Rename(l.partial.Name(), l.name) },
		func() error { return object.SyncDirectory(filepath.Dir(l.name)) },
	} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("complete %s: %w", l.name, err), l.remove())
	}
	return l.partial.Close()
}

// remove leaves nothing.
func (l *landing) remove() error {
	err := os.Remove(l.partial.Name())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.partial.Close())
}
