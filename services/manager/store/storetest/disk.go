package storetest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Fill has a file take all of a disk but so much.
func Fill(t *testing.T, name string, but int64) {
	t.Helper()
	var stat unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(name), &stat); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-but); err != nil {
		t.Fatal(err)
	}
}
