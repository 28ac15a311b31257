package object

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/noroom"
)

type reserveKey struct{}

// Leaving has objects that land with a context leave so many bytes of their disk to others: for them, a disk with no more than that is full.
func Leaving(ctx context.Context, bytes uint64) context.Context {
	return context.WithValue(ctx, reserveKey{}, bytes)
}

func reserveOf(ctx context.Context) uint64 {
	bytes, _ := ctx.Value(reserveKey{}).(uint64)
	return bytes
}

// checkRoom returns an error if there is no room for so many more bytes and files beside the reserve.
func (l *Landing) checkRoom(bytes, files uint64) error {
	err := checkRoom(l.partial.dir.handle, bytes+l.reserve, files)
	if err != nil && l.reserve > 0 {
		err = fmt.Errorf("%w, of which %s are left to others", err, bytesize.Short(l.reserve))
	}
	return err
}

// checkReserve returns an error if less than the reserve is left, as where others write to the disk, too.
func (l *Landing) checkReserve() error {
	if l.reserve == 0 {
		return nil
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(l.partial.dir.handle.Fd()), &stat); err != nil {
		return fmt.Errorf("ask for the room in %s: %w", l.partial.dir.Name(), err)
	}
	free, isBound := roomOf(&stat)
	if !isBound || free >= l.reserve {
		return nil
	}
	return fmt.Errorf("%w: %s are free in %s: %s are left to others", noroom.Err, bytesize.Short(free), filepath.Clean(l.partial.dir.Name()), bytesize.Short(l.reserve))
}
