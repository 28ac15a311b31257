package object

import (
	"context"
	"io/fs"
	"os"

	"github.com/groupcast/groupcast/internal/digest"
)

// beginning is what a file is found by at another path: its size and its first piece.
type beginning struct {
	size uint64
	sum  Root
}

// find looks in the whole earlier directory for files that land and have none at their path there, as those that were renamed and
// those in directories that were. One that begins alike is compared in its place.
func (e *Earlier) find(ctx context.Context) error {
	wanted, sizes := make(map[beginning][]string), make(map[uint64]bool)
	for i := range e.layout.entries {
		now := &e.layout.entries[i]
		if now.size == 0 {
			continue
		}
		if there, err := e.root.Lstat(now.path); err == nil && there.Mode().IsRegular() {
			continue
		}
		like := beginning{now.size, Root([]byte(now.hashes[:digest.Size]))}
		wanted[like], sizes[now.size] = append(wanted[like], now.path), true
	}
	if len(wanted) == 0 {
		return nil
	}
	return fs.WalkDir(e.root.FS(), ".", func(path string, found fs.DirEntry, err error) error {
		e.reader.pulse.Beat()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || !found.Type().IsRegular() {
			return nil // what cannot be read is passed over, and what is no file
		}
		info, err := found.Info()
		if err != nil || !sizes[uint64(info.Size())] {
			return nil
		}
		like, err := e.beginning(path)
		if err != nil {
			return nil
		}
		for _, lands := range wanted[like] {
			e.elsewhere[lands] = path
		}
		delete(wanted, like)
		if len(wanted) == 0 {
			return fs.SkipAll
		}
		return nil
	})
}

// beginning reads that of an earlier file.
func (e *Earlier) beginning(path string) (beginning, error) {
	file, info, err := openPlain(e.root, path, os.O_RDONLY)
	if err != nil {
		return beginning{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	size := uint64(info.Size())
	_, sum, err := e.reader.read(file, size, 0)
	return beginning{size, sum}, err
}
