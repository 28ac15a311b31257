package object

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/pulse"
)

// Complete compares length and root, and lets the object appear under its name, in
// place of a file or directory that had it. If it is durable, all of it is on disk
// before, and its name when Complete returns. If it is not, it outlives the process,
// but a power cut may leave anything.
//
// After ErrDamaged the partial is gone.
func (l *Landing) Complete(length uint64, root Root, durable bool) error {
	now, err := l.usable()
	if err != nil {
		return err
	}
	if length != l.info.Length {
		return l.damaged(fmt.Errorf("%w: it has %d bytes and %d were announced", ErrDamaged, length, l.info.Length))
	}
	if now.landed != length {
		return fmt.Errorf("complete %s: %d bytes of %d have landed", l.info.Name, now.landed, length)
	}
	if err := l.finishWriting(now.layout); err != nil {
		return l.fail(err)
	}
	l.halt()
	if _, err := l.usable(); err != nil { // the last claim may have gone wrong
		return err
	}
	err = l.checkWhole(now.layout, root)
	if err == nil {
		err = l.appear(now.layout, durable)
	}
	switch {
	case errors.Is(err, ErrDamaged):
		return l.damaged(err)
	case errors.Is(err, pulse.ErrStalled): // nothing is wrong with what is there
		return err
	case err != nil:
		return l.fail(err)
	}
	_, _ = l.partial.remove(), l.end() // the object is there; what is left, Sweep removes
	return nil
}

// checkWhole checks that what has landed is what was sent, and nothing else.
func (l *Landing) checkWhole(known *layout, root Root) error {
	if hashed := l.progress.tally.root(); hashed != root {
		return fmt.Errorf("%w: its root is %v, want %v", ErrDamaged, hashed, root)
	}
	return l.inspect(known)
}

func (l *Landing) finishWriting(known *layout) error {
	if err := l.makeEntries(known, len(known.entries)); err != nil {
		return err
	}
	return l.closeFiles()
}

// damaged removes the partial of an object that is not what was sent.
func (l *Landing) damaged(reason error) error {
	return errors.Join(fmt.Errorf("complete %s: %w", l.info.Name, reason), l.Remove())
}

// appear gives a whole object its modes and its name.
func (l *Landing) appear(known *layout, durable bool) error {
	if err := l.finishFiles(known.entries[l.durable:], l.info.Length, durable); err != nil {
		return err
	}
	if l.info.Kind == Directory {
		if err := l.finishDirectories(known.entries, durable); err != nil {
			return err
		}
		return l.appearDirectory(durable)
	}
	return l.rename(durable)
}

// appearDirectory renames a tree. Only a user that may write to a directory may move it,
// so one that is closed to its owner is closed after it was moved.
func (l *Landing) appearDirectory(durable bool) error {
	top, err := l.tree.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	if err := setMode(top, l.info.Mode|0o200, durable); err != nil {
		return err
	}
	if err := l.rename(durable); err != nil || l.info.Mode&0o200 != 0 {
		return err
	}
	return setMode(top, l.info.Mode, durable)
}

func setMode(file *os.File, mode fs.FileMode, durable bool) error {
	if err := file.Chmod(mode); err != nil || !durable {
		return err
	}
	return file.Sync()
}

// rename is the moment at which the object is there.
func (l *Landing) rename(durable bool) error {
	dir := l.partial.dir
	if err := l.pulse.Err(); err != nil { // it is known as failed, and another may have taken its place
		return err
	}
	if err := checkFinal(dir.Root, l.info); err != nil {
		return err
	}
	var err error
	if l.replacesDirectory() {
		err = l.exchange()
	} else {
		err = l.move(0)
	}
	if err != nil {
		return fmt.Errorf("rename to %s: %w", l.info.Name, err)
	}
	if !durable {
		return nil
	}
	return dir.sync()
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
	return renameFrom(l.partial.home, l.partial.dir, l.info.Name, flags)
}

func renameFrom(home, to folder, name string, flags uint) error {
	for {
		err := unix.Renameat2(int(home.handle.Fd()), contentName, int(to.handle.Fd()), name, flags)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// replacesDirectory reports whether there is a directory whose place the object takes.
func (l *Landing) replacesDirectory() bool {
	_, err := l.partial.dir.Lstat(l.info.Name)
	return err == nil && l.info.Kind == Directory
}

// checkReplace returns an error if the object would have to take the place of a directory that only another user may move, or on a file
// system that cannot exchange two at once, as NFS: that is tried in the partial, in which nothing has landed. In two steps there would be
// neither between them.
func (l *Landing) checkReplace() error {
	if !l.replacesDirectory() {
		return nil
	}
	if err := l.checkMovable(); err != nil {
		return err
	}
	home := l.partial.home
	if err := errors.Join(home.Mkdir(contentName, landingDirectory), home.Mkdir(headName, landingDirectory)); err != nil {
		return err
	}
	err := renameFrom(home, home, headName, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w: there is a directory %s, and its file system cannot put another in its place: move it away first", ErrName, l.info.Name)
	}
	return errors.Join(err, home.Remove(contentName), home.Remove(headName))
}

// checkMovable returns an error if this user can neither write to the directory that is there nor open it for that.
func (l *Landing) checkMovable() error {
	dir, name := l.partial.dir, l.info.Name
	err := unix.Faccessat(int(dir.handle.Fd()), name, unix.W_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
	if !errors.Is(err, unix.EACCES) {
		return nil // the exchange will tell
	}
	there, statErr := dir.Lstat(name)
	if statErr != nil {
		return statErr
	}
	owner := there.Sys().(*syscall.Stat_t).Uid
	if owner == uint32(os.Geteuid()) {
		return nil
	}
	return fmt.Errorf("%w: there is a directory %s of another user (%d), which this one (%d) cannot move: move it away first", ErrName, name, owner, os.Geteuid())
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

// inspect makes sure that what will appear is what the table says, and nothing else.
func (l *Landing) inspect(known *layout) error {
	if l.info.Kind == File {
		info, err := l.tree.Lstat(contentName)
		if err != nil {
			return err
		}
		return inspectEntry(&known.entries[0], info)
	}
	rest := known.entries
	err := fs.WalkDir(l.tree.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if len(rest) == 0 || rest[0].path != path {
			return fmt.Errorf("%w: the partial has %q, which the table has not", ErrDamaged, path)
		}
		info, err := l.tree.Lstat(path)
		if err == nil {
			err = inspectEntry(&rest[0], info)
		}
		l.pulse.Beat()
		rest = rest[1:]
		return err
	})
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: the partial has no %q", ErrDamaged, rest[0].path)
	}
	return err
}

func inspectEntry(e *entry, info fs.FileInfo) error {
	switch {
	case e.kind == Directory && info.IsDir():
		return nil
	case e.kind == Directory || !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is %s in the partial, want a %v", ErrDamaged, e.path, describe(info.Mode()), e.kind)
	case uint64(info.Size()) != e.size:
		return fmt.Errorf("%w: %s has %d bytes in the partial, want %d", ErrDamaged, e.path, info.Size(), e.size)
	}
	if err := checkAlone(e.path, info); err != nil {
		return fmt.Errorf("%w: in the partial %w", ErrDamaged, err)
	}
	return nil
}
