package object

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// identity tells one state of a file from another.
type identity struct {
	device, inode     uint64
	size              int64
	modified, changed syscall.Timespec
}

func identify(info fs.FileInfo) identity {
	stat := info.Sys().(*syscall.Stat_t)
	return identity{
		device: stat.Dev, inode: stat.Ino, size: stat.Size,
		modified: stat.Mtim, changed: stat.Ctim,
	}
}

// holds reports whether an open file is in the state in which it was seen. To lose its last name changes
// the time of its last change, and nothing that can be read from it.
func (i identity) holds(info fs.FileInfo) bool {
	now := identify(info)
	if info.Sys().(*syscall.Stat_t).Nlink == 0 {
		now.changed = i.changed
	}
	return now == i
}

// checkAlone returns an error if a file has other names: whoever writes by one writes to all.
func checkAlone(path string, info fs.FileInfo) error {
	if names := info.Sys().(*syscall.Stat_t).Nlink; names != 1 {
		return fmt.Errorf("%s has %d names, want one", path, names)
	}
	return nil
}

// describe says what something is that is no regular file or directory.
func describe(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "neither a file nor a directory"
}

// openPlain opens a regular file, and nothing that a symbolic link leads to: the
// root keeps links from leaving it, but follows them within. It does not wait for
// the other end of a pipe.
func openPlain(root *os.Root, path string, flag int) (*os.File, fs.FileInfo, error) {
	file, err := root.OpenFile(path, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := checkPlain(root, path, file)
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func checkPlain(root *os.Root, path string, file *os.File) (fs.FileInfo, error) {
	named, err := root.Lstat(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %s, want a file", path, describe(named.Mode()))
	}
	if !os.SameFile(named, info) {
		return nil, fmt.Errorf("%s: %w: another file took its place", path, ErrChanged)
	}
	return info, nil
}
