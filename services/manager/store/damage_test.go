package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// flipBits inverts some bytes in the first 64 KiB of a file, where there is content.
func flipBits(t *testing.T, name string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < min(len(content), 64<<10); i += 997 {
		content[i] ^= 0xff
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// truncate cuts a file to its first page and a bit.
func truncate(t *testing.T, name string) {
	t.Helper()
	if err := os.Truncate(name, 5000); err != nil {
		t.Fatal(err)
	}
}

// snapshotDir returns the sizes of all files below dir.
func snapshotDir(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	sizes := make(map[string]int64)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		sizes[path] = info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}
