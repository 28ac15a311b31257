package object

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/noroom"
)

// checkRoom returns an error if the file system of a directory has no room for so many
// more bytes and files. Others write there too, so a write may find it full all
// the same; but what cannot fit need not be begun.
func checkRoom(dir *os.File, bytes, files uint64) error {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &stat); err != nil {
		return fmt.Errorf("ask for the room in %s: %w", dir.Name(), err)
	}
	free, isBound := roomOf(&stat)
	if isBound && bytes > free {
		return fmt.Errorf("%w: %s are missing in %s: %s are free and %s are needed", noroom.Err, bytesize.Short(bytes-free), filepath.Clean(dir.Name()), bytesize.Short(free), bytesize.Short(bytes))
	}
	if stat.Files > 0 && files > stat.Ffree {
		return fmt.Errorf("%w: %d files can be made in %s and %d are needed", noroom.Err, stat.Ffree, filepath.Clean(dir.Name()), files)
	}
	return nil
}

// roomOf returns how many bytes are free; isBound is false if the file system has no bound, or does not tell.
func roomOf(stat *unix.Statfs_t) (free uint64, isBound bool) {
	return stat.Bavail * uint64(cmp.Or(stat.Frsize, stat.Bsize)), stat.Blocks > 0 // the sizes differ on some FUSE file systems
}

// checkRest returns an error if there is no room for what has not been claimed. Where an earlier landing has written some of that,
// it has to make room for itself.
func (l *Landing) checkRest(known *layout) error {
	err := l.checkRoom(l.info.needs(l.resumed), 1)
	if l.resumed == 0 || !noroom.Is(err) {
		return err
	}
	if err := l.cut(known); err != nil {
		return err
	}
	return l.checkRoom(l.info.needs(l.resumed), 1)
}

// checkUnread returns an error if there would be no room for the rest of a file even if all of it that was claimed, or written, is as it
// was: whoever tries again and again until there is room would read that each time.
func (l *Landing) checkUnread(claimed uint64) error {
	if l.info.Kind != File {
		return nil
	}
	var written unix.Stat_t
	if err := unix.Fstatat(int(l.partial.home.handle.Fd()), contentName, &written, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil // whoever reads it finds out what is wrong
	}
	const block = 512 // in which stat counts
	unclaimed := uint64(written.Size) - min(uint64(written.Size), claimed)
	there := min(claimed+min(uint64(written.Blocks)*block, unclaimed), l.info.Length)
	return l.checkRoom(l.info.needs(there), 0)
}

// needs is what room the bytes from an offset on take at least. Where holes are is not known when it is asked.
func (i Info) needs(from uint64) uint64 {
	rest := i.Length - from
	return rest - min(rest, i.Zeros)
}

// full is a disk that is full, or a quota that is used up, as the user of the directory in which something lands knows it:
// where unfinished bytes lie below that, is this package's.
type full struct {
	dir   string
	cause error
}

func (f full) Error() string {
	why := unix.ENOSPC
	if errors.Is(f.cause, unix.EDQUOT) {
		why = unix.EDQUOT
	}
	return fmt.Sprintf("%v in %s", why, filepath.Clean(f.dir))
}

func (f full) Unwrap() []error { return []error{noroom.Err, f.cause} }

// fullIn makes an error that says so a noroom.Err that names the directory, and leaves others alone.
func fullIn(dir string, err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return full{dir, err}
}

// notBegun says that an object does not begin to land in a directory, which errors about room name themselves.
func notBegun(name, dir string, err error) error {
	if err = fullIn(dir, err); noroom.Is(err) {
		return fmt.Errorf("land %s: %w", name, err)
	}
	return fmt.Errorf("land %s in %s: %w", name, dir, err)
}
