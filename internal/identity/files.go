package identity

import (
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile replaces a file by rename, synced, so that a reader or a power cut
// sees the old content or the new, and nothing between.
func WriteFile(name string, content []byte, mode os.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // after the rename there is nothing left to remove
	if err := writeSynced(temporary, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(temporary.Name(), name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
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

// Exposed reports whether every user of this machine may read a file. One that cannot be looked at is none.
func Exposed(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
