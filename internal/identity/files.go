package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is a file's name and intended content.
type File struct {
	Name    string
	Content []byte
	Mode    os.FileMode
}

// WriteFile replaces a file by rename, synced, so that a reader or a power cut
// sees the old content or the new, and nothing between.
func WriteFile(name string, content []byte, mode os.FileMode) error {
	return WriteFiles(File{name, content, mode})
}

// WriteFiles is WriteFile for several files, and they keep their owners. All are on the disk before the first is replaced:
// whoever reads them together sees a mixture of old and new for a moment only, however slow the disk is.
func WriteFiles(files ...File) error {
	drafts := make([]string, len(files))
	for i, file := range files {
		temporary, err := os.CreateTemp(filepath.Dir(file.Name), "."+filepath.Base(file.Name)+".*")
		if err != nil {
			return of(file.Name, err)
		}
		drafts[i] = temporary.Name()
		defer os.Remove(drafts[i]) // after the rename there is nothing left to remove
		if err := errors.Join(keepOwner(temporary, file.Name), writeSynced(temporary, file.Content, file.Mode)); err != nil {
			return of(file.Name, err)
		}
	}
	for i, file := range files {
		if err := os.Rename(drafts[i], file.Name); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := syncDir(filepath.Dir(file.Name)); err != nil {
			return err
		}
	}
	return nil
}

// of makes an error about a draft one about what it is a draft of: nobody has to know the draft's name.
func of(name string, err error) error {
	var draft *fs.PathError
	if errors.As(err, &draft) {
		return &fs.PathError{Op: draft.Op, Path: name, Err: draft.Err}
	}
	return fmt.Errorf("write %s: %w", name, err)
}

// keepOwner gives a draft to whoever owns the file that it is to replace, or the directory if there is none yet. Root may use another
// user's configuration, and renew its certificate: a key that became root's could not be read any more by that user.
func keepOwner(draft *os.File, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	there, err := os.Lstat(name)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew {
		there, err = os.Stat(filepath.Dir(name))
	}
	if err != nil {
		return err
	}
	own, err := draft.Stat()
	if err != nil {
		return err
	}
	owner := there.Sys().(*syscall.Stat_t)
	if owner.Uid == own.Sys().(*syscall.Stat_t).Uid {
		return nil
	}
	if err := draft.Chown(int(owner.Uid), int(owner.Gid)); !isNew {
		return err
	}
	return nil // a root that may not do that, as in a container, takes nothing away from anybody by a new file
}

func writeSynced(file *os.File, content []byte, mode os.FileMode) error {
	defer file.Close()
	if err := file.Chmod(mode); err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

func syncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.Sync()
}

// roomWanted is more than credentials or a configuration need.
const roomWanted = 16 << 10

// CheckWritable says why files could not be written to a directory, which may not exist yet. It is called before something is
// asked for that can be had only once.
func CheckWritable(dir string) error {
	for isMissing(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	draft, err := os.CreateTemp(dir, ".writable.*")
	if err != nil {
		return of(dir, err)
	}
	defer os.Remove(draft.Name())
	if err := writeSynced(draft, make([]byte, roomWanted), 0o600); err != nil {
		return of(dir, err)
	}
	return nil
}

func isMissing(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// Exposed reports whether every user of this machine may read a file; false if it cannot be examined.
func Exposed(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
