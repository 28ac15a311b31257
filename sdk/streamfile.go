package sdk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
)

// incomplete is what the name of a stream ends with until all has come.
const incomplete = ".incomplete"

// streamFile is a stream that goes into a directory. It gets its name only once all has come, so that nobody takes for the whole what is
// left of a stream that failed, or whose member was killed.
type streamFile struct {
	*os.File
	dir, name string
	path      string // where it is now
	closed    bool
}

// createStream makes the file. What earlier streams have left stays as it is.
func createStream(dir, name string) (*streamFile, error) {
	if err := object.CheckName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var file *os.File
	now, err := firstFree(dir, name, incomplete, func(now string) (err error) {
		file, err = root.OpenFile(now, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &streamFile{File: file, dir: dir, name: name, path: filepath.Join(dir, now)}, nil
}

// Close closes the file, if place has not done so.
func (f *streamFile) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return f.File.Close()
}

// place gives a complete stream its name, or the next one that is free. If it has to be durable, both stream and name are on disk then. It
// closes the file before that: on a file system of another machine that may say that not all could be written.
func (f *streamFile) place(durable bool) error {
	if durable {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	placed, err := firstFree(f.dir, f.name, "", func(now string) error { return moveToNew(f.path, filepath.Join(f.dir, now)) })
	if err != nil {
		return err
	}
	f.path = filepath.Join(f.dir, placed)
	if durable {
		return object.SyncDirectory(f.dir)
	}
	return nil
}

// firstFree takes the first of a name's numbered variants that is free in a directory, and returns it. Many thousands may be taken: it lists
// the directory once, and does not try one after the other.
func firstFree(dir, name, ending string, take func(name string) error) (string, error) {
	var there map[string]bool
	for i := 0; ; i++ {
		now := numbered(name, ending, i)
		if there[now] {
			continue
		}
		err := take(now)
		if !errors.Is(err, os.ErrExist) {
			return now, err
		}
		if there == nil {
			if there, err = namesIn(dir); err != nil {
				return "", err
			}
		}
	}
}

func namesIn(dir string) (map[string]bool, error) {
	open, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	all, err := open.Readdirnames(-1)
	names := make(map[string]bool, len(all))
	for _, name := range all {
		names[name] = true
	}
	return names, err
}

// moveToNew renames a file to a name that must be free.
func moveToNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // some file systems cannot, as NFS
		return linkToNew(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// linkToNew does the same by a link, which never replaces a file, and removes the former name.
func linkToNew(from, to string) error {
	err := os.Link(from, to)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil: // there are file systems without links
		return renameToNew(from, to)
	}
	if err := os.Remove(from); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// renaming is held to look whether a name is free and to take it.
var renaming sync.Mutex

// renameToNew does the same with what every file system can do: at least nothing that this process receives replaces anything else that
// it does.
func renameToNew(from, to string) error {
	renaming.Lock()
	defer renaming.Unlock()
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.EEXIST}
	}
	return os.Rename(from, to)
}

// numbered returns a variant of a name for each number; for zero, with only the ending. It cuts the name if that would be longer than a
// file's name can be.
func numbered(name, ending string, i int) string {
	if i > 0 {
		ending = fmt.Sprintf("%s.%d", ending, i)
	}
	if room := object.MaxElement - len(ending); len(name) > room {
		name = strings.ToValidUTF8(name[:room], "")
	}
	return name + ending
}
