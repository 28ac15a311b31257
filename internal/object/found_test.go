package object_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

// What is found is confirmed as long as nobody touches it, and gets the object's mode.
func TestFoundIsConfirmed(t *testing.T) {
	for name, change := range map[string]func(at string) error{
		"untouched": nil,
		"another took its place": func(at string) error {
			return errors.Join(os.Rename(at, at+".old"), os.Mkdir(at, 0o755))
		},
		"gone":   os.RemoveAll,
		"edited": func(at string) error { return os.WriteFile(filepath.Join(at, "a"), []byte("hullo"), 0o600) },
	} {
		from, to := t.TempDir(), t.TempDir()
		plant(t, from, map[string]string{"it/a": "hello"})
		plant(t, to, map[string]string{"it/a": "hello"})
		old := time.Unix(1e9, 0) // so that an edit shows whatever the clock's grain
		if err := os.Chtimes(filepath.Join(to, "it/a"), old, old); err != nil {
			t.Fatal(err)
		}
		source := open(t, filepath.Join(from, "it"))
		info := source.Info()
		info.Mode = 0o751
		found, err := object.Find(t.Context(), to, info)
		if err != nil || found == nil {
			t.Fatalf("%s: %v %v", name, found, err)
		}
		if root, there, err := found.Root(t.Context()); err != nil || !there || root != rootOf(t, source) {
			t.Errorf("%s: root %v, %v %v", name, root, there, err)
		}
		if change != nil {
			if err := change(filepath.Join(to, "it")); err != nil {
				t.Fatal(err)
			}
		}
		if err := found.Confirm(true); (err == nil) != (change == nil) || err != nil && !errors.Is(err, object.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		if change == nil {
			if there, err := os.Stat(filepath.Join(to, "it")); err != nil || there.Mode().Perm() != 0o751 {
				t.Errorf("its mode is %v, %v", there.Mode(), err)
			}
		}
		if err := found.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What was read once is not read again to know its root, unless it has changed.
func TestFoundIsReadOnce(t *testing.T) {
	for name, change := range map[string]func(at string) error{
		"untouched": nil,
		"another took its place": func(at string) error {
			return errors.Join(os.Rename(at, at+".old"), os.CopyFS(at, os.DirFS(at+".old")))
		},
		"edited": func(at string) error { return os.WriteFile(filepath.Join(at, "a"), []byte("hullo"), 0o600) },
	} {
		from, to := t.TempDir(), t.TempDir()
		plant(t, from, map[string]string{"it/a": "hello"})
		plant(t, to, map[string]string{"it/a": "world"})
		old := time.Unix(1e9, 0)
		if err := os.Chtimes(filepath.Join(to, "it/a"), old, old); err != nil {
			t.Fatal(err)
		}
		source := open(t, filepath.Join(from, "it"))
		find := func() *object.Found {
			t.Helper()
			found, err := object.Find(t.Context(), to, source.Info())
			if err != nil || found == nil {
				t.Fatalf("%s: %v %v", name, found, err)
			}
			t.Cleanup(func() { _ = found.Close() })
			return found
		}
		found := find()
		root, there, err := found.Root(t.Context())
		if err != nil || !there || found.Recall(nil) {
			t.Fatalf("%s: %v %v", name, there, err)
		}
		if change != nil {
			if err := change(filepath.Join(to, "it")); err != nil {
				t.Fatal(err)
			}
		}
		again := find()
		if known := again.Recall(found.Seen(root)); known != (change == nil) {
			t.Errorf("%s: it is taken for what was read: %t", name, known)
		}
		now, _, err := again.Root(t.Context())
		if err != nil || (now == root) != (name != "edited") {
			t.Errorf("%s: its root is %v, and was %v: %v", name, now, root, err)
		}
	}
}

// A file that another took the place of while it was hashed is not what is there under the name.
func TestFoundFileThatIsReplaced(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	plant(t, from, map[string]string{"it": "hello"})
	plant(t, to, map[string]string{"it": "hello", "other": "olleh"})
	found, err := object.Find(t.Context(), to, open(t, filepath.Join(from, "it")).Info())
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	defer found.Close()
	if _, there, err := found.Root(t.Context()); err != nil || !there {
		t.Fatal(there, err)
	}
	if err := os.Rename(filepath.Join(to, "other"), filepath.Join(to, "it")); err != nil {
		t.Fatal(err)
	}
	if err := found.Confirm(true); !errors.Is(err, object.ErrChanged) {
		t.Errorf("%v, want it noticed", err)
	}
}
