package object

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Existing returns the root of what has the object's name already, if it is of
// its kind and length. It may be an older object, or a wrong one: only the root
// tells.
func Existing(ctx context.Context, dir string, info Info) (root Root, there bool, err error) {
	if err := info.check(); err != nil {
		return Root{}, false, err
	}
	open, err := os.OpenRoot(dir)
	if err != nil {
		return Root{}, false, err
	}
	defer func() { _ = open.Close() }()
	found, err := open.Lstat(info.Name)
	if err != nil || found.IsDir() != (info.Kind == Directory) || info.Kind == File && uint64(found.Size()) != info.Length {
		return Root{}, false, ignoreMissing(err)
	}
	return hashExisting(ctx, open, info)
}

func hashExisting(ctx context.Context, dir *os.Root, info Info) (Root, bool, error) {
	source, err := openIn(dir, info.Name)
	if err != nil {
		return Root{}, false, nil // what cannot be sent is not what was sent
	}
	defer func() { _ = source.Close() }()
	if source.info.Kind != info.Kind || source.info.Length != info.Length {
		return Root{}, false, nil
	}
	root, err := source.Root(ctx)
	if errors.Is(err, ErrChanged) {
		return Root{}, false, nil
	}
	return root, err == nil, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
