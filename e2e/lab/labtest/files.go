package labtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// WantCopy checks that one place has the same files as another, and no others.
func WantCopy(t testing.TB, source, at string) {
	t.Helper()
	want, got := Contents(t, source), Contents(t, at)
	if len(want) != len(got) {
		t.Errorf("%s has %d files of %s, want %d", at, len(got), source, len(want))
	}
	for name, content := range want {
		if !bytes.Equal(content, got[name]) {
			t.Errorf("%s%s has %d bytes, or others than the %d of its source", at, name, len(got[name]), len(content))
		}
	}
}

// Contents reads a file, or all files below a directory.
func Contents(t testing.TB, root string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[strings.TrimPrefix(path, root)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all
}
