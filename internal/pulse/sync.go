package pulse

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// Piece is how many bytes have to be on disk for a beat: even a disk that is hardly one writes as many in minutes. begun is how
	// many are on their way to the disk meanwhile, which is not to stand still between two pieces.
	Piece = 8 << 20
	begun = 4 * Piece
)

// Sync has all of a file be on disk. Gigabytes of it may wait in memory, for which a slow disk takes minutes, and one call would say
// nothing meanwhile: those between two offsets, which were written since the last Sync, go there first, piece by piece.
func (p *Pulse) Sync(file *os.File, from, to uint64) error {
	if err := p.Flush(file, from, to); err != nil {
		return err
	}
	err := file.Sync()
	p.Beat()
	return err
}

// Flush writes the bytes of a file between two offsets to the disk, so that a sync has little left to do. Its errors count as those of a
// sync: the kernel tells each only once.
func (p *Pulse) Flush(file *os.File, from, to uint64) error {
	if p == nil || p.Whole || to <= from || to-from <= Piece {
		return nil
	}
	descriptor := int(file.Fd())
	begins := from
	for at := from; at < to; at += Piece {
		for ; begins < min(to, at+begun); begins += Piece {
			if err := unix.SyncFileRange(descriptor, int64(begins), Piece, unix.SYNC_FILE_RANGE_WRITE); err != nil {
				return unlessUnknown(file, err)
			}
		}
		err := unix.SyncFileRange(descriptor, int64(at), Piece, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		if err != nil {
			return unlessUnknown(file, err)
		}
		p.Beat()
	}
	return nil
}

// unlessUnknown drops an error that says that this is not done here: a sandbox does not know the call, or the file system.
func unlessUnknown(file *os.File, err error) error {
	if slices.ContainsFunc([]error{unix.ENOSYS, unix.EINVAL, unix.ESPIPE, unix.EPERM, unix.EOPNOTSUPP}, func(none error) bool { return errors.Is(err, none) }) {
		return nil
	}
	return &os.PathError{Op: "sync", Path: file.Name(), Err: err}
}
