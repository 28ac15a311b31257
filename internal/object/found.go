package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/pulse"
)

// Found is what has an object's name, and is of its kind and length. It may be an older object,
// or a wrong one: only the root tells.
type Found struct {
	dir    *os.Root
	source *Source
	info   Info
}

// Find looks for what may be the object already; nil is that nothing may. It reads no content, except for the hashes of a directory that
// is to have them, if that is as long as the object.
func Find(ctx context.Context, dir string, info Info) (*Found, error) {
	if err := info.check(); err != nil {
		return nil, err
	}
	open, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	found, err := findIn(ctx, open, info)
	if found == nil {
		return nil, errors.Join(err, open.Close())
	}
	return found, nil
}

func findIn(ctx context.Context, dir *os.Root, info Info) (*Found, error) {
	there, err := dir.Lstat(info.Name)
	if err != nil || there.IsDir() != (info.Kind == Directory) || info.Kind == File && uint64(there.Size()) != info.Length {
		return nil, ignoreMissing(err)
	}
	source, err := openLike(ctx, dir, info)
	if source == nil || err != nil {
		return nil, ctx.Err() // else what cannot be sent is not what was sent
	}
	if source.info.Kind != info.Kind || source.info.Length != info.Length {
		return nil, source.Close()
	}
	return &Found{dir: dir, source: source, info: info}, nil
}

// openLike opens what has an object's name. Of a directory whose head is to have hashes, the files are read for that only if it is as long.
func openLike(ctx context.Context, dir *os.Root, info Info) (*Source, error) {
	if !info.Hashed {
		return openIn(ctx, dir, info.Name, nil)
	}
	source, err := openIn(ctx, dir, info.Name, nil)
	if err != nil {
		return nil, err
	}
	known := source.layout
	length := known.end + hashesOf(known.entries, piecesFor(known.entries))
	if err := source.Close(); err != nil || length != info.Length {
		return nil, err
	}
	return openIn(ctx, dir, info.Name, func(uint64, uint64) {})
}

// Root hashes all bytes; there is none if they change meanwhile.
func (f *Found) Root(ctx context.Context) (root Root, there bool, err error) {
	root, err = f.source.Root(ctx)
	if errors.Is(err, ErrChanged) {
		return Root{}, false, nil
	}
	return root, err == nil, err
}

// Seen is the root of what was found once. It holds for as long as that stays as it is.
type Seen struct {
	top     identity
	entries []identity
	root    Root
}

// Seen remembers a root that Root has returned.
func (f *Found) Seen(root Root) *Seen { return &Seen{f.source.top, f.source.seen, root} }

// Recall spares reading again what was read: it reports whether this is what was seen. Nil is nothing.
func (f *Found) Recall(seen *Seen) bool {
	if seen == nil || seen.top != f.source.top || !slices.Equal(seen.entries, f.source.seen) {
		return false
	}
	<-f.source.hashing
	f.source.known, f.source.sum = true, seen.root
	f.source.hashing <- struct{}{}
	return true
}

// Confirm returns an error if what was hashed is not there any more, and gives it the object's mode, if this user may. If it is to be
// durable, all of it is on disk then.
func (f *Found) Confirm(durable bool) error {
	there, err := f.dir.Lstat(f.info.Name)
	if err != nil {
		return changedIfGone(f.info.Name, err)
	}
	if identify(there) != f.source.top {
		return fmt.Errorf("%w: %s", ErrChanged, f.info.Name)
	}
	if err := f.source.Changed(); err != nil {
		return err
	}
	if there.Mode().Perm() != f.info.Mode.Perm() {
		if err := f.dir.Chmod(f.info.Name, f.info.Mode.Perm()); err != nil && !mayNot(err) {
			return err
		}
	}
	if !durable {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return syncIn(f.dir, ".", 0, f.source.pulse)
}

// Sync has all that was hashed on disk, but for its name.
func (f *Found) Sync() error {
	for i := range f.source.layout.entries {
		e := &f.source.layout.entries[i]
		if err := syncIn(f.source.root, e.path, e.size, f.source.pulse); err != nil {
			return err
		}
	}
	if f.info.Kind == Directory {
		return syncIn(f.dir, f.info.Name, 0, f.source.pulse)
	}
	return nil
}

// mayNot reports whether a mode stays as it is because it is another user's to change, or the disk's.
func mayNot(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOTSUP)
}

// syncIn has what has a path be on disk; of a file, so many bytes.
func syncIn(dir *os.Root, path string, size uint64, beats *pulse.Pulse) error {
	file, err := dir.Open(path)
	if err != nil {
		return changedIfGone(path, err)
	}
	return errors.Join(beats.Sync(file, 0, size), file.Close())
}

// Close ends it, and leaves what is there as it is.
func (f *Found) Close() error { return errors.Join(f.source.Close(), f.dir.Close()) }
