package object

import (
	"context"
	"errors"
	"io/fs"
)

// Existing returns the root of what has the object's name already, if it is of
// its kind and length. It may be an older object, or a wrong one: only the root
// tells.
func Existing(ctx context.Context, dir string, info Info) (root Root, there bool, err error) {
	found, err := Find(ctx, dir, info)
	if found == nil || err != nil {
		return Root{}, false, err
	}
	defer func() { _ = found.Close() }()
	return found.Root(ctx)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
