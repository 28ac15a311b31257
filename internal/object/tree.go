package object

import (
	"errors"
	"io/fs"
	"os"
)

// What landings make and open in a partial. While bytes land, files and
// directories are for their owner alone; they get their modes when they are whole.
const (
	landingFile      = 0o600
	landingDirectory = 0o700
)

// makeTree makes and opens the directory that a tree lands in.
func (l *Landing) makeTree() error {
	tree, err := l.partial.home.make(contentName)
	if err != nil {
		return err
	}
	l.tree = tree.Root
	return tree.handle.Close()
}

// closeTree closes what makeTree opened. A file's tree is the partial itself.
func (l *Landing) closeTree() error {
	tree := l.tree
	l.tree = nil
	if tree == nil || tree == l.partial.home.Root {
		return nil
	}
	return tree.Close()
}

// openForWriting opens the file that the next bytes are for, after making all
// entries before it that have none.
func (l *Landing) openForWriting(layout *layout, index int) (*os.File, error) {
	if index == headIndex {
		return create(l.partial.home.Root, headName)
	}
	if l.ahead[index] {
		delete(l.ahead, index)
		return l.openBegun(&layout.entries[index])
	}
	return l.beginFile(layout, index)
}

// openAhead opens a file that bytes came for before they were next.
func (l *Landing) openAhead(layout *layout, index int) (*os.File, error) {
	if l.ahead[index] {
		return l.openBegun(&layout.entries[index])
	}
	file, err := l.beginFile(layout, index)
	if err == nil {
		l.ahead[index] = true
	}
	return file, err
}

// beginFile makes a file, or opens the one in which an earlier landing stopped.
func (l *Landing) beginFile(layout *layout, index int) (*os.File, error) {
	if err := l.makeEntries(layout, index); err != nil {
		return nil, err
	}
	l.made = max(l.made, index+1)
	e := &layout.entries[index]
	if e.start < l.resumed {
		return l.reopen(e)
	}
	return create(l.tree, e.path)
}

// openBegun opens a file that this landing has made.
func (l *Landing) openBegun(e *entry) (*os.File, error) {
	file, info, err := openPlain(l.tree, e.path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := checkAlone(e.path, info); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// makeEntries makes all that has no bytes, before the entry with this index.
func (l *Landing) makeEntries(layout *layout, before int) error {
	for ; l.made < before; l.made++ {
		l.pulse.Beat()
		switch e := &layout.entries[l.made]; {
		case e.kind == Directory:
			if err := l.makeDirectory(e.path); err != nil {
				return err
			}
		case e.size == 0:
			file, err := create(l.tree, e.path)
			if err != nil {
				return err
			}
			if err := file.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Landing) makeDirectory(path string) error {
	err := l.tree.Mkdir(path, landingDirectory)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := l.tree.Lstat(path)
	if err != nil || info.IsDir() {
		return err
	}
	if err := l.tree.Remove(path); err != nil {
		return err
	}
	return l.tree.Mkdir(path, landingDirectory)
}

// create makes a new file. What has the name already is not opened: it may have
// other names as well, or lead elsewhere.
func create(root *os.Root, path string) (*os.File, error) {
	for {
		file, err := root.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, landingFile)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
		if err := root.RemoveAll(path); err != nil {
			return nil, err
		}
	}
}

// reopen opens the file in which an earlier landing stopped, without what it
// wrote and did not claim.
func (l *Landing) reopen(e *entry) (*os.File, error) {
	file, info, err := openPlain(l.tree, e.path, os.O_RDWR)
	if errors.Is(err, fs.ErrPermission) { // it was whole once, and more of it claimed
		if err := l.tree.Chmod(e.path, landingFile); err != nil {
			return nil, err
		}
		file, info, err = openPlain(l.tree, e.path, os.O_RDWR)
	}
	if err != nil {
		return nil, err
	}
	if err = checkAlone(e.path, info); err == nil {
		err = file.Truncate(int64(l.resumed - e.start))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// openLanded opens what has landed to be read, be it whole or not.
func (l *Landing) openLanded(layout *layout, index int) (*os.File, error) {
	if index == headIndex {
		file, _, err := openPlain(l.partial.home.Root, headName, os.O_RDONLY)
		return file, err
	}
	file, _, err := l.openEntry(layout.entries[index].path)
	return file, err
}

// openEntry opens a file, even one that its mode keeps from being read.
func (l *Landing) openEntry(path string) (*os.File, fs.FileInfo, error) {
	file, info, err := openPlain(l.tree, path, os.O_RDONLY)
	if !errors.Is(err, fs.ErrPermission) {
		return file, info, err
	}
	locked, err := l.tree.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := l.tree.Chmod(path, landingFile); err != nil {
		return nil, nil, err
	}
	if file, _, err = openPlain(l.tree, path, os.O_RDONLY); err != nil {
		return nil, nil, err
	}
	if err := file.Chmod(locked.Mode().Perm()); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, locked, nil
}
