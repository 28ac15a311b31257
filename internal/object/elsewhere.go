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

// find looks in the whole earlier directory for files that land and have none of their size at their path there, as those that were
// renamed and those in directories that were. One that begins alike is compared in its place.
func (e *Earlier) find(ctx context.Context) error {
	wanted, sizes, stay, err := e.strangers(ctx)
	if err != nil || len(wanted) == 0 {
		return err
	}
	found := make(map[beginning][]string)
	err = fs.WalkDir(e.root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		e.reader.pulse.Beat()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || !entry.Type().IsRegular() || stay[path] {
			return nil // what cannot be read is passed over, what is no file, and what has its place
		}
		info, err := entry.Info()
		if err != nil || !sizes[uint64(info.Size())] {
			return nil
		}
		if like, err := e.beginning(path); err == nil && wanted[like] != nil && len(found[like]) < mostAlike {
			found[like] = append(found[like], path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for like, paths := range found {
		for _, lands := range wanted[like] {
			e.reader.pulse.Beat()
			e.elsewhere[lands] = nearest(lands, paths)
		}
	}
	return nil
}

// mostAlike is among how many files that begin alike the nearest is chosen.
const mostAlike = 1024

// strangers returns the paths of files that land and have no file of their size at their path, by how they begin, and their sizes;
// and the paths of all others.
func (e *Earlier) strangers(ctx context.Context) (wanted map[beginning][]string, sizes map[uint64]bool, stay map[string]bool, err error) {
	wanted, sizes, stay = make(map[beginning][]string), make(map[uint64]bool), make(map[string]bool)
	for i := range e.layout.entries {
		now := &e.layout.entries[i]
		if now.size == 0 {
			continue
		}
		e.reader.pulse.Beat()
		if ctx.Err() != nil {
			return nil, nil, nil, ctx.Err()
		}
		if there, err := e.root.Lstat(now.path); err == nil && there.Mode().IsRegular() && uint64(there.Size()) == now.size {
			stay[now.path] = true
			continue
		}
		like := beginning{now.size, Root([]byte(now.hashes[:digest.Size]))}
		wanted[like], sizes[now.size] = append(wanted[like], now.path), true
	}
	return wanted, sizes, stay, nil
}

// nearest returns the path that ends most like another: in a directory that was renamed, files have their names still.
func nearest(path string, among []string) (best string) {
	most := -1
	for _, one := range among {
		alike := 0
		for alike < min(len(one), len(path)) && one[len(one)-1-alike] == path[len(path)-1-alike] {
			alike++
		}
		if alike > most {
			best, most = one, alike
		}
	}
	return best
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
