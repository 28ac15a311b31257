package object

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	l.left = l.partial.remove()
	_ = l.end() // the object is there
	return nil
}

// Left says what of the directory that the object has replaced could not be removed, and where it is; nil if nothing is left.
func (l *Landing) Left() error { return l.left }

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
	if err := l.takePlace(); err != nil {
		return fmt.Errorf("rename to %s: %w", l.info.Name, err)
	}
	if !durable {
		return nil
	}
	return dir.sync()
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
