package device

import (
	"context"

	"github.com/groupcast/groupcast/internal/object"
)

// Found is a device that had all of an object once. Whether it still has, only the root tells.
type Found struct {
	file   *held
	length uint64
}

// Find looks whether a device has had all of an object; nil is that nothing says so.
func Find(target Target, info object.Info) (*Found, error) {
	file, err := target.open(info)
	if err != nil {
		return nil, err
	}
	number, err := numberOf(file.File)
	if err == nil {
		if c, has := claimsIn(target.State, number, info).read(); has && c.offset == info.Length {
			return &Found{file, info.Length}, nil
		}
	}
	_ = file.Close() // nothing was done with it
	return nil, err
}

// Root hashes what the device has.
func (f *Found) Root(ctx context.Context) (root object.Root, there bool, err error) {
	hash, err := readBack(ctx, f.file.File, make([]byte, piece), f.length)
	return object.Root(hash.Sum()), err == nil, err
}

// Confirm has it be on the device: it was read from there.
func (f *Found) Confirm(bool) error { return nil }

// Close ends it, and leaves the device as it is.
func (f *Found) Close() error { return f.file.Close() }
