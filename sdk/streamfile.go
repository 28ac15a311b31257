package sdk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
)

const (
	// incomplete is what the name of a stream ends with of which not all has come.
	incomplete = ".incomplete"
	// mostStreams is how many of one name a directory has.
	mostStreams = 1000
)

// streamFile is a stream that goes into a directory. It has its name when all has come: nobody takes for the whole what is
// left of one that failed, or whose member was killed.
type streamFile struct {
	*os.File
	dir, name string
	path      string // at present
}

// createStream makes the file. What is there of an earlier one stays as it is.
func createStream(dir, name string) (*streamFile, error) {
	if err := object.CheckName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for i := 0; ; i++ {
		now := numbered(name+incomplete, i)
		file, err := root.OpenFile(now, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrExist) && i < mostStreams {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &streamFile{file, dir, name, filepath.Join(dir, now)}, nil
	}
}

// place gives a stream of which all has come its name, or the next that nobody has. Durable, both are on disk then.
func (f *streamFile) place(durable bool) error {
	if durable {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	for i := range mostStreams {
		path := filepath.Join(f.dir, numbered(f.name, i))
		err := moveToNew(f.path, path)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			f.path = path
		}
		if err == nil && durable {
			err = object.SyncDirectory(f.dir)
		}
		return err
	}
	return fmt.Errorf("%s has %d streams of the name %s", f.dir, mostStreams, f.name)
}

// moveToNew renames a file to a name that nobody has.
func moveToNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // some file systems cannot; they can tell
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.EEXIST}
		}
		return os.Rename(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// numbered returns another name for each number; the first is the name itself.
func numbered(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, i)
}
