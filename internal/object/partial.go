package object

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/filelock"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/pulse"
	"lukechampine.com/blake3"
)

// What is in a partial's directory.
const (
	journalName = "journal"
	headName    = "head"
	contentName = "content"
)

// aside begins the names of what is like a partial, and nobody's: it could not be removed.
const aside = "aside-"

// tag names the partials of an object.
func tag(info Info) string {
	name := binary.BigEndian.AppendUint64([]byte{byte(info.Kind)}, info.Length)
	name = binary.BigEndian.AppendUint64(name, uint64(info.Time.Unix()))
	name = binary.BigEndian.AppendUint64(name, uint64(info.Time.Nanosecond()))
	sum := blake3.Sum256(append(name, info.Name...))
	return hex.EncodeToString(sum[:16])
}

// folder is a directory with a root, below which all names are confined, and a
// descriptor, which renames and syncs need.
type folder struct {
	*os.Root
	handle *os.File
}

// openRoot opens a directory, below which all names are confined. That something else has its name is said as everywhere:
// os.OpenRoot says it in words of its own.
func openRoot(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err == nil {
		return root, nil
	}
	if there, none := os.Stat(dir); none == nil && !there.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}
	return nil, err
}

func newFolder(root *os.Root) (folder, error) {
	handle, err := root.Open(".")
	if err != nil {
		return folder{}, errors.Join(err, root.Close())
	}
	return folder{root, handle}, nil
}

// below opens a directory that must be one, not a link to one.
func (f folder) below(name string) (folder, error) {
	info, err := f.Lstat(name)
	if err != nil {
		return folder{}, err
	}
	if !info.IsDir() {
		return folder{}, fmt.Errorf("%s is %s, want a directory", name, describe(info.Mode()))
	}
	root, err := f.OpenRoot(name)
	if err != nil {
		return folder{}, err
	}
	return newFolder(root)
}

// make opens a directory, and makes it if there is none.
func (f folder) make(name string) (folder, error) {
	if err := f.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return folder{}, noroom.Named(err)
	}
	return f.below(name)
}

func (f folder) sync() error {
	if err := f.handle.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", f.Name(), err)
	}
	return nil
}

func (f folder) close() error {
	if f.Root == nil {
		return nil
	}
	return errors.Join(f.handle.Close(), f.Close())
}

// partial is the directory of an object that has not landed whole. Whoever has
// one has its lock.
type partial struct {
	dir     folder // where the object lands
	all     folder // of all partials in dir
	home    folder // of this one
	tag     string
	journal journal
	pulse   *pulse.Pulse
}

// openPartial opens the partial of this tag and locks it. It begins again if
// another process removes the partial meanwhile.
func openPartial(dir, tag string, beats *pulse.Pulse) (*partial, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	p := &partial{tag: tag, pulse: beats}
	if p.dir, err = newFolder(root); err != nil {
		return nil, err
	}
	for range 100 {
		err = p.enter()
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		err = errors.Join(err, p.leave())
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *partial) enter() (err error) {
	if p.all, err = p.dir.make(reserved); err != nil {
		return p.dir.notOwn(err)
	}
	if p.home, err = p.all.make(p.tag); err != nil {
		return err
	}
	file, err := lockJournal(p.home)
	p.journal = journal{file: file}
	return err
}

// notOwn makes an error that says whose the directory of partials is, if it is another user's.
func (f folder) notOwn(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	there, none := f.Lstat(reserved)
	if none != nil || isOwn(ownerOf(there)) {
		return err
	}
	return fmt.Errorf("%w: what user %d, who received here before, has not finished is in %s: go on as that user, or remove that first", ErrName, ownerOf(there), reserved)
}

// lockJournal opens and locks the journal of a partial. If the one it locked has
// been removed, the error is fs.ErrNotExist.
func lockJournal(home folder) (*os.File, error) {
	file, err := home.OpenFile(journalName, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, noroom.Named(err)
	}
	if err := filelock.Take(file); err != nil {
		if errors.Is(err, filelock.ErrHeld) {
			err = ErrBusy
		}
		return nil, errors.Join(err, file.Close())
	}
	info, err := checkPlain(home.Root, journalName, file)
	if errors.Is(err, ErrChanged) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = checkAlone(journalName, info)
	}
	if err != nil {
		return nil, errors.Join(err, filelock.Release(file))
	}
	return file, nil
}

// empty removes what has landed, and what was claimed about it, or sets it aside.
func (p *partial) empty() error {
	err := p.journal.keep(0)
	_, inTheWay := p.discard()
	return errors.Join(err, inTheWay, p.home.RemoveAll(headName))
}

// remove removes the partial, and returns what is left of it. The journal goes last: as long as it is there, it
// is locked.
func (p *partial) remove() error {
	left, err := p.discard()
	if err == nil {
		err = p.removeRest()
	}
	p.dir.tidy()
	return errors.Join(left, err)
}

func (p *partial) removeContent() error {
	if err := removeTree(p.home.Root, contentName, p.pulse); err != nil {
		return fmt.Errorf("remove partial: %w", err)
	}
	return p.removeRest()
}

func (p *partial) removeRest() error {
	err := p.home.RemoveAll(headName)
	if err == nil {
		err = p.home.Remove(journalName)
	}
	if err != nil {
		return fmt.Errorf("remove partial: %w", err)
	}
	_ = p.all.Remove(p.tag) // another landing may be in it already
	return nil
}

// discard removes the content. What cannot be removed, as what another user has put into a directory that was replaced, it sets aside, where
// nothing that lands needs its place and Sweep finds it, and returns where that is.
func (p *partial) discard() (left, err error) {
	why := removeTree(p.home.Root, contentName, p.pulse)
	if why == nil {
		return nil, nil
	}
	name := aside + rand.Text()
	place, err := p.all.make(name)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	defer func() { _ = place.close() }()
	if err := rename(p.home, contentName, place, contentName, 0); err != nil {
		return nil, errors.Join(why, err, p.all.Remove(name))
	}
	return fmt.Errorf("it is in %s: %w", filepath.Join(p.dir.Name(), reserved, name), why), nil
}

// tidy removes the directory of partials if there is none.
func (f folder) tidy() { _ = f.Remove(reserved) }

// leave closes all but dir.
func (p *partial) leave() error {
	err := errors.Join(p.home.close(), p.all.close())
	if p.journal.file != nil {
		err = errors.Join(err, p.journal.close())
	}
	p.home, p.all, p.journal = folder{}, folder{}, journal{}
	return err
}

func (p *partial) close() error { return errors.Join(p.leave(), p.dir.close()) }

// removeTree removes a file, or a tree, even one whose directories must not be
// written to.
func removeTree(root *os.Root, name string, beats *pulse.Pulse) error {
	if beats != nil {
		prune(root, name, beats)
	}
	err := root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = fs.WalkDir(root.FS(), name, func(path string, found fs.DirEntry, _ error) error {
		if found != nil && found.IsDir() {
			_ = root.Chmod(path, 0o700) // before it is read: a second visit brings the error
		}
		return nil
	})
	return root.RemoveAll(name)
}

// prune removes what it can of a tree one by one: each name that is gone is a beat.
func prune(root *os.Root, name string, beats *pulse.Pulse) {
	var directories []string
	_ = fs.WalkDir(root.FS(), name, func(path string, found fs.DirEntry, _ error) error {
		switch {
		case found == nil:
		case found.IsDir():
			directories = append(directories, path)
		default:
			_ = root.Remove(path)
		}
		beats.Beat()
		return nil
	})
	for _, path := range slices.Backward(directories) {
		_ = root.Remove(path)
		beats.Beat()
	}
}
