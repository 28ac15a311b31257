package object

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/pulse"
)

// checkPlace returns an error if the object will not be able to take its place: so nothing of it need come.
func (l *Landing) checkPlace() error {
	dir := l.partial.dir
	if err := checkFinal(dir.Root, l.info); err != nil {
		return err
	}
	there, err := dir.Lstat(l.info.Name)
	if err != nil {
		return ignoreMissing(err)
	}
	if err := checkMounts(dir, l.info.Name); err != nil {
		return err
	}
	return checkOwner(dir, there)
}

// checkFinal returns an error if the object's name is that of something that it must not
// take the place of.
func checkFinal(dir *os.Root, info Info) error {
	there, err := dir.Lstat(info.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Kind == File && there.Mode().IsRegular() || info.Kind == Directory && there.IsDir() {
		return nil
	}
	return fmt.Errorf("%w: %s is %s already, and a %v does not replace that", ErrName, info.Name, describe(there.Mode()), info.Kind)
}

// checkMounts returns an error if something is mounted at a name, which nobody can rename, or below it, where it would be removed with the
// directory that is replaced.
func checkMounts(dir folder, name string) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.handle.Fd()))
	if err != nil { // without /proc nobody tells
		return nil
	}
	if at := pulse.MountIn(filepath.Join(path, name)); at != "" {
		return fmt.Errorf("%w: something is mounted at %s, which does not give its place to the next %s: unmount it, or receive elsewhere", ErrName, at, name)
	}
	return nil
}

// checkOwner returns an error if only another user may put something else in the place of what is there: a directory to which this one may
// not write, and whatever is in a directory with the sticky bit.
func checkOwner(dir folder, there fs.FileInfo) error {
	in, err := dir.Stat(".")
	if err != nil {
		return err
	}
	owner := ownerOf(there)
	if isOwn(owner) {
		return nil
	}
	isClosed := there.IsDir() && errors.Is(unix.Faccessat(int(dir.handle.Fd()), there.Name(), unix.W_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW), unix.EACCES)
	isSticky := in.Mode()&fs.ModeSticky != 0 && !isOwn(ownerOf(in))
	if isClosed || isSticky {
		return fmt.Errorf("%w: there is a %s of another user (%d), which this one (%d) cannot replace: move it away first", ErrName, there.Name(), owner, os.Geteuid())
	}
	return nil
}

func ownerOf(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// isOwn reports whether this process may do with a user's files what their owner may.
func isOwn(owner uint32) bool {
	if owner == uint32(os.Geteuid()) {
		return true
	}
	var has [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &has[0])
	return err == nil && has[0].Effective&(1<<unix.CAP_FOWNER) != 0
}

// replacesDirectory reports whether there is a directory whose place the object takes.
func (l *Landing) replacesDirectory() bool {
	_, err := l.partial.dir.Lstat(l.info.Name)
	return err == nil && l.info.Kind == Directory
}

// checkExchange returns an error if the object would have to take the place of a directory on a file system that cannot exchange two at
// once, as NFS: that is tried in the partial, in which nothing has landed. In two steps there would be neither between them.
func (l *Landing) checkExchange() error {
	if !l.replacesDirectory() {
		return nil
	}
	home := l.partial.home
	if err := errors.Join(home.Mkdir(contentName, landingDirectory), home.Mkdir(headName, landingDirectory)); err != nil {
		return err
	}
	err := rename(home, contentName, home, headName, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w: there is a directory %s, and its file system cannot put another in its place: move it away first", ErrName, l.info.Name)
	}
	return errors.Join(err, home.Remove(contentName), home.Remove(headName))
}

// takePlace is the moment at which the object is there, and nothing else in its place.
func (l *Landing) takePlace() error {
	if !l.replacesDirectory() {
		return l.move(0)
	}
	if err := checkMounts(l.partial.dir, l.info.Name); err != nil {
		return err
	}
	return l.exchange()
}

// exchange puts the object where the old directory is, and that where the object was. One that is closed to its owner is opened, since it
// is moved, too, and closed again if it stays.
func (l *Landing) exchange() error {
	dir := l.partial.dir
	err := l.move(unix.RENAME_EXCHANGE)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	old, statErr := dir.Lstat(l.info.Name)
	if statErr != nil || old.Mode()&0o200 != 0 || dir.Chmod(l.info.Name, old.Mode()|0o200) != nil {
		return err
	}
	if err = l.move(unix.RENAME_EXCHANGE); err != nil {
		_ = dir.Chmod(l.info.Name, old.Mode())
	}
	return err
}

// move renames what has landed to the object's name.
func (l *Landing) move(flags uint) error {
	return rename(l.partial.home, contentName, l.partial.dir, l.info.Name, flags)
}

func rename(from folder, name string, to folder, newName string, flags uint) error {
	for {
		err := unix.Renameat2(int(from.handle.Fd()), name, int(to.handle.Fd()), newName, flags)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
