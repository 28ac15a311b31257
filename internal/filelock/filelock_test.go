package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/filelock"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestOneAtATime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	one, other := open(t, name), open(t, name)
	if err := filelock.Take(one); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Take(other); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("taken twice: %v", err)
	}
	// This is what a process has that was forked and does not run its program yet.
	inherited, err := unix.Dup(int(one.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if err := filelock.Release(one); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Take(other); err != nil {
		t.Errorf("released, and not to be had: %v", err)
	}
	if err := filelock.Release(one); !errors.Is(err, os.ErrClosed) {
		t.Errorf("released twice: %v", err)
	}
}
