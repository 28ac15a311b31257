package object_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lukechampine.com/blake3"

	"github.com/groupcast/groupcast/internal/object"
)

// The root is the hash of the bytes that readers give, whichever way they are read.
func TestRootIsOfWhatReadersGive(t *testing.T) {
	from := t.TempDir()
	plant(t, from, map[string]string{"it/a/b": "one", "it/c": "two", "it/d": "", "it/e": "three"})
	source := open(t, filepath.Join(from, "it"))
	root := rootOf(t, source)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			reader := source.NewReader()
			defer reader.Close()
			hash := blake3.New(32, nil)
			for offset := uint64(0); ; {
				file, n, err := reader.Section(offset)
				if err != nil || n == 0 {
					if offset != source.Info().Length || err != nil {
						t.Errorf("it ends at %d: %v", offset, err)
					}
					break
				}
				read, err := io.CopyN(hash, file, min(n, 7))
				if err != nil {
					t.Error(err)
					return
				}
				offset += uint64(read)
			}
			if got := object.Root(hash.Sum(nil)); got != root {
				t.Errorf("read %v, want %v", got, root)
			}
		})
	}
	readers.Wait()
	reader := source.NewReader()
	if _, _, err := reader.Section(source.Info().Length + 1); err == nil {
		t.Error("there is a section after the end")
	}
}

// interruptedAfter is a context that is done once it was asked so often.
type interruptedAfter struct {
	context.Context
	left int
}

func (c *interruptedAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A large tree may take long to be looked at: a survey that is interrupted meanwhile has nothing of it, wherever that is.
func TestLookingAtATreeIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"it/a/b": "one", "it/c": "two", "it/d": "", "it/e": "three"})
	info := open(t, filepath.Join(dir, "it")).Info()
	for left := range 4 {
		if _, err := object.Open(&interruptedAfter{t.Context(), left}, filepath.Join(dir, "it")); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d looks: %v, want it interrupted", left, err)
		}
		if found, err := object.Find(&interruptedAfter{t.Context(), left}, dir, info); found != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("after %d looks it is %v, %v, want it interrupted", left, found, err)
		}
	}
}

// The root depends on nothing but names, kinds, permissions and content.
func TestSameTreeSameRoot(t *testing.T) {
	files := map[string]string{"it/a/b": "one", "it/a-b": "two", "it/c/": ""}
	one, two := t.TempDir(), t.TempDir()
	plant(t, one, files)
	plant(t, two, files)
	if err := os.Chtimes(filepath.Join(two, "it/a/b"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(two, "it"), filepath.Join(two, "other name")); err != nil {
		t.Fatal(err)
	}
	root := rootOf(t, open(t, filepath.Join(one, "it")))
	if other := rootOf(t, open(t, filepath.Join(two, "other name"))); other != root {
		t.Errorf("roots %v and %v of the same tree", root, other)
	}
	const golden = "79edb6edff169680a513b794174d3fa6a18d068bb497082a995bddf1aa5b0ad2"
	if got := root.String(); got != golden {
		t.Errorf("root %s, want %s: trees that were sent before have another one now", got, golden)
	}
	for name, change := range map[string]func(it string) error{
		"content":    func(it string) error { return os.WriteFile(filepath.Join(it, "a/b"), []byte("eno"), 0o644) },
		"mode":       func(it string) error { return os.Chmod(filepath.Join(it, "a/b"), 0o600) },
		"name":       func(it string) error { return os.Rename(filepath.Join(it, "a/b"), filepath.Join(it, "a/c")) },
		"a new file": func(it string) error { return os.WriteFile(filepath.Join(it, "new"), nil, 0o644) },
		"kind": func(it string) error {
			return errors.Join(os.Remove(filepath.Join(it, "c")), os.WriteFile(filepath.Join(it, "c"), nil, 0o755))
		},
	} {
		from := t.TempDir()
		plant(t, from, files)
		if err := change(filepath.Join(from, "it")); err != nil {
			t.Fatal(err)
		}
		if other := rootOf(t, open(t, filepath.Join(from, "it"))); other == root {
			t.Errorf("another %s, and the same root", name)
		}
	}
}

func TestChanged(t *testing.T) {
	for name, change := range map[string]func(it string) error{
		"written":  func(it string) error { return os.WriteFile(filepath.Join(it, "a/b"), []byte("eno"), 0o644) },
		"appended": func(it string) error { return os.WriteFile(filepath.Join(it, "a/b"), []byte("one more"), 0o644) },
		"replaced": func(it string) error {
			return errors.Join(os.WriteFile(it+"-new", []byte("one"), 0o644), os.Rename(it+"-new", filepath.Join(it, "a/b")))
		},
		"removed":     func(it string) error { return os.Remove(filepath.Join(it, "a/b")) },
		"added":       func(it string) error { return os.WriteFile(filepath.Join(it, "a/new"), nil, 0o644) },
		"added above": func(it string) error { return os.WriteFile(filepath.Join(it, "new"), nil, 0o644) },
		"chmod":       func(it string) error { return os.Chmod(filepath.Join(it, "a/b"), 0o600) },
		"linked": func(it string) error {
			return errors.Join(os.Remove(filepath.Join(it, "a/b")), os.Symlink("../c", filepath.Join(it, "a/b")))
		},
		"touched back": func(it string) error { // content changed, and the time of modification set to what it was
			path := filepath.Join(it, "a/b")
			info, err := os.Stat(path)
			return errors.Join(err, os.WriteFile(path, []byte("eno"), 0o644), os.Chtimes(path, time.Time{}, info.ModTime()))
		},
	} {
		from := t.TempDir()
		plant(t, from, map[string]string{"it/a/b": "one", "it/c": "one"})
		source := open(t, filepath.Join(from, "it"))
		if err := source.Changed(); err != nil {
			t.Errorf("before %s: %v", name, err)
		}
		if err := change(filepath.Join(from, "it")); err != nil {
			t.Fatal(err)
		}
		if err := source.Changed(); !errors.Is(err, object.ErrChanged) {
			t.Errorf("%s: %v, want it noticed", name, err)
		}
		if _, err := source.Root(t.Context()); !errors.Is(err, object.ErrChanged) {
			t.Errorf("%s: a root of what changed: %v", name, err)
		}
	}
}

// A file is the one that was opened, whatever takes its name; what is written to it is noticed all the same.
func TestFileThatIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(it string) error{
		"replaced": func(it string) error {
			return errors.Join(os.WriteFile(it+"-new", []byte("two"), 0o644), os.Rename(it+"-new", it))
		},
		"removed": os.Remove,
	} {
		it := filepath.Join(t.TempDir(), "it")
		plant(t, filepath.Dir(it), map[string]string{"it": "one"})
		writer, err := os.OpenFile(it, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		old := time.Unix(1e9, 0) // so that a write shows whatever the clock's grain
		if err := os.Chtimes(it, old, old); err != nil {
			t.Fatal(err)
		}
		source := open(t, it)
		reader := source.NewReader()
		defer reader.Close()
		if err := replace(it); err != nil {
			t.Fatal(err)
		}
		content := make([]byte, 3)
		if err := reader.ReadAt(content, 0); err != nil || string(content) != "one" || source.Changed() != nil {
			t.Errorf("%s: %q, %v; changed: %v", name, content, err, source.Changed())
		}
		if _, err := source.Root(t.Context()); err != nil {
			t.Errorf("%s: no root: %v", name, err)
		}
		if _, err := writer.WriteAt([]byte("eno"), 0); err != nil {
			t.Fatal(err)
		}
		if err := source.Changed(); !errors.Is(err, object.ErrChanged) {
			t.Errorf("%s and written to: %v, want it noticed", name, err)
		}
	}
}

func TestRootIsCanceledAndTriedAgain(t *testing.T) {
	from := t.TempDir()
	plant(t, from, map[string]string{"it": "content"})
	source := open(t, filepath.Join(from, "it"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Root(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it canceled", err)
	}
	if root := rootOf(t, source); root != object.Sum([]byte("content")) {
		t.Errorf("root %v", root)
	}
}
