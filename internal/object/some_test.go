package object_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/internal/object"
)

// Some files of a directory are an object that lands as a file, and is taken apart without ever appearing. What else becomes
// of the directory does not matter to it.
func TestSomeFiles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	files := map[string]string{"b/two": "second", "b/c/three": "", "one": "first", "b-": "between"}
	plant(t, from, files)
	plant(t, from, map[string]string{"other": "not sent", "b/c/other": "neither"})
	source, err := object.Some(from, "some", []string{"b/two", "one", "b/c/three", "b-"})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	plant(t, from, map[string]string{"b/c/late": "written meanwhile"})
	if err := os.WriteFile(filepath.Join(from, "other"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := rootOf(t, source)
	content := make([]byte, source.Info().Length)
	reader := source.NewReader()
	defer reader.Close()
	if err := reader.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	info := object.Info{Name: "it", Kind: object.File, Length: uint64(len(content)), Mode: 0o600}
	landing := land(t, to, info)
	if _, err := landing.Write(content); err != nil {
		t.Fatal(err)
	}
	whole, err := landing.Whole(info.Length, root)
	if err != nil {
		t.Fatal(err)
	}
	entries := len(files) + 2 // with the directories that they are in
	if _, err := object.Items(whole, info.Length, entries-1); !errors.Is(err, object.ErrManyItems) {
		t.Errorf("%v, want too many items", err)
	}
	items, err := object.Items(whole, info.Length, entries)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, item := range items {
		if item.Kind == object.File {
			content, err := io.ReadAll(io.NewSectionReader(whole, int64(item.Offset), int64(item.Size)))
			if err != nil {
				t.Fatal(err)
			}
			got[item.Path] = string(content)
		}
	}
	for path, content := range files {
		if got[path] != content {
			t.Errorf("%s is %q, want %q", path, got[path], content)
		}
	}
	if len(got) != len(files) {
		t.Errorf("%d files: %v", len(got), got)
	}
	if err := landing.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
		t.Errorf("something is left: %v, %v", left, err)
	}
}

// A file that changes, or is gone, is told; what is damaged is not handed out, and nothing of it is kept.
func TestSomeFilesThatAreNotWhatTheyWere(t *testing.T) {
	from := t.TempDir()
	plant(t, from, map[string]string{"a": "one", "d/b": "two"})
	if _, err := object.Some(from, "some", []string{"a", "gone"}); err == nil {
		t.Error("a file that is not there was opened")
	}
	if err := os.Symlink("a", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := object.Some(from, "some", []string{"link"}); err == nil {
		t.Error("a symbolic link was opened")
	}
	source, err := object.Some(from, "some", []string{"a", "d/b"})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if err := os.WriteFile(filepath.Join(from, "d/b"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Root(t.Context()); !errors.Is(err, object.ErrChanged) {
		t.Errorf("%v, want it changed", err)
	}

	to, content := t.TempDir(), bytes.Repeat([]byte("x"), 1000)
	info := object.Info{Name: "it", Kind: object.File, Length: 1000, Mode: 0o600}
	landing := land(t, to, info)
	if _, err := landing.Write(content); err != nil {
		t.Fatal(err)
	}
	if _, err := landing.Whole(info.Length, object.Root{1}); !errors.Is(err, object.ErrDamaged) {
		t.Errorf("%v, want it damaged", err)
	}
	if again := land(t, to, info); again.Offset() != 0 {
		t.Errorf("%d damaged bytes were kept", again.Offset())
	}
	if _, err := object.Items(bytes.NewReader(content), 1000, 1000); !errors.Is(err, object.ErrTable) {
		t.Errorf("%v, want no table", err)
	}
}
