package store_test

import (
	"bytes"
	"crypto/sha256"
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

// renumber has each page of a database but the first two say that it is another one.
func renumber(t *testing.T, name string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for page := 2 * os.Getpagesize(); page < len(content); page += os.Getpagesize() {
		content[page+2] ^= 1
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// truncate cuts a file to some bytes.
func truncate(bytes int64) func(*testing.T, string) {
	return func(t *testing.T, name string) {
		t.Helper()
		if err := os.Truncate(name, bytes); err != nil {
			t.Fatal(err)
		}
	}
}

// loseEnd cuts what was written last off a log, which has zeros behind that.
func loseEnd(t *testing.T, name string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	truncate(int64(len(bytes.TrimRight(content, "\x00")))-3000)(t, name)
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

// snapshotDir returns the hashes of all files below dir.
func snapshotDir(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	hashes := make(map[string][sha256.Size]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		hashes[path] = sha256.Sum256(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hashes
}
