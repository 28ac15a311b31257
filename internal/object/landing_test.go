package object_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

func TestBusy(t *testing.T) {
	to := t.TempDir()
	first := land(t, to, hello)
	if _, err := object.Land(t.Context(), to, hello); !errors.Is(err, object.ErrBusy) {
		t.Errorf("a second landing: %v, want it refused", err)
	}
	if removed, err := object.Sweep(to, -time.Hour); removed != 0 || err != nil {
		t.Errorf("swept %d while one lands: %v", removed, err)
	}
	if err := completeHello(t, first); err != nil {
		t.Fatal(err)
	}
	land(t, to, hello)
}

func TestMisuse(t *testing.T) {
	landing := land(t, t.TempDir(), hello)
	if err := landing.Complete(5, object.Root{}, true); err == nil || errors.Is(err, object.ErrDamaged) {
		t.Errorf("complete before all has landed: %v", err)
	}
	if n, err := landing.Write([]byte("hello!")); n != 5 || err == nil {
		t.Errorf("%d bytes landed, 5 are the object's: %v", n, err)
	}
	if err := landing.Complete(5, object.Root{}, true); !errors.Is(err, object.ErrDamaged) {
		t.Errorf("complete with another root: %v", err)
	}
	if err := errors.Join(landing.Keep(), landing.Keep(), landing.Remove()); err != nil {
		t.Errorf("ends after the end: %v", err)
	}
	if _, err := landing.Write([]byte("h")); err == nil {
		t.Error("a byte landed after the end")
	}
}

// A wrong root or length is never complete, and costs the partial.
func TestDamaged(t *testing.T) {
	for name, complete := range map[string]func(*object.Landing) error{
		"root":   func(l *object.Landing) error { return l.Complete(5, object.Sum([]byte("hullo")), true) },
		"length": func(l *object.Landing) error { return l.Complete(6, object.Sum([]byte("hello")), true) },
	} {
		to := t.TempDir()
		landing := land(t, to, hello)
		if err := put(landing, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := complete(landing); !errors.Is(err, object.ErrDamaged) {
			t.Errorf("%s: %v, want it damaged", name, err)
		}
		if left := tree(t, to); len(left) != 1 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

// C54: what has the name and the size already is not complete until it is
// hashed, and is replaced if it is wrong.
func TestC54ExistingWrongFile(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	plant(t, from, map[string]string{"file": "hello", "tree/a": "hello", "tree/b": ""})
	plant(t, to, map[string]string{"file": "hullo", "tree/a": "hullo", "tree/b": ""})
	for _, name := range []string{"file", "tree"} {
		source := open(t, filepath.Join(from, name))
		root := rootOf(t, source)
		if there, found, err := object.Existing(t.Context(), to, source.Info()); !found || err != nil || there == root {
			t.Errorf("%s: the wrong one has root %v, %v %v", name, there, found, err)
		}
		if err := landWhole(t, source, land(t, to, source.Info())); err != nil {
			t.Fatal(err)
		}
		if there, found, err := object.Existing(t.Context(), to, source.Info()); !found || err != nil || there != root {
			t.Errorf("%s: the right one has root %v, %v %v", name, there, found, err)
		}
	}
	for name, info := range map[string]object.Info{
		"another length": {Name: "file", Kind: object.File, Length: 6},
		"another kind":   {Name: "tree", Kind: object.File, Length: 5},
		"none":           {Name: "none", Kind: object.File},
		"not sendable":   {Name: "linked", Kind: object.Directory, Length: 100},
	} {
		plant(t, to, map[string]string{"linked/": ""})
		_ = os.Symlink("x", filepath.Join(to, "linked/x"))
		if _, found, err := object.Existing(t.Context(), to, info); found || err != nil {
			t.Errorf("%s: %v %v, want none", name, found, err)
		}
	}
}

// Directories that are closed to their owner cost no progress, be they there when the landing is interrupted or not.
func TestReadOnlyDirectoriesResume(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	plant(t, from, map[string]string{"it/a/locked/f": "f", "it/b": strings.Repeat("b", 1<<20), "it/c/locked/deep/f": "f"})
	for _, locked := range []string{"it/a/locked", "it/c/locked"} {
		lock(t, filepath.Join(from, locked))
	}
	source := open(t, filepath.Join(from, "it"))
	half := source.Info().Length / 2 // a is whole, and nothing of c is there
	landing := land(t, to, source.Info())
	if err := errors.Join(deliver(source, landing, half, whole), landing.Keep()); err != nil {
		t.Fatal(err)
	}
	landing = land(t, to, source.Info())
	if landing.Offset() != half {
		t.Errorf("goes on at %d, want %d", landing.Offset(), half)
	}
	if err := landWhole(t, source, landing); err != nil {
		t.Fatal(err)
	}
	for _, locked := range []string{"it/a/locked", "it/c/locked"} {
		if mode := lock(t, filepath.Join(to, locked)); mode != 0o555 {
			t.Errorf("%s has mode %v", locked, mode)
		}
	}
}

// lock closes a directory to its owner until the test ends, and returns the mode that it had.
func lock(t *testing.T, dir string) os.FileMode {
	t.Helper()
	info, err := os.Stat(dir)
	if err == nil {
		err = os.Chmod(dir, 0o555)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	return info.Mode().Perm()
}

// C54: a partial that was edited between two landings is seen before anything is
// asked for, and what is asked for again is all that is not as it was claimed.
func TestC54EditedPartial(t *testing.T) {
	from := t.TempDir()
	plant(t, from, map[string]string{"it/a": strings.Repeat("a", 1<<20), "it/b": strings.Repeat("b", 1<<20), "it/c": "c"})
	source := open(t, filepath.Join(from, "it"))
	for name, edit := range map[string]struct {
		do     func(home string) error
		resume bool
	}{
		"nothing":           {func(string) error { return nil }, true},
		"first byte":        {func(home string) error { return overwrite(home, "content/a", 0) }, false},
		"last byte":         {func(home string) error { return overwrite(home, "content/b", -1) }, true}, // up to the claim before
		"head":              {func(home string) error { return overwrite(home, "head", 20) }, false},
		"head's sizes":      {func(home string) error { return overwrite(home, "head", 31) }, false},
		"cut":               {func(home string) error { return os.Truncate(filepath.Join(home, "content/a"), 5) }, false},
		"no content":        {func(home string) error { return os.RemoveAll(filepath.Join(home, "content")) }, false},
		"no head":           {func(home string) error { return os.Remove(filepath.Join(home, "head")) }, false},
		"journal's end":     {func(home string) error { return overwrite(home, "journal", -1) }, true},
		"journal's start":   {func(home string) error { return overwrite(home, "journal", 0) }, false},
		"a link as content": {func(home string) error { return relink(filepath.Join(home, "content/a"), "b") }, false},
		"one file more":     {func(home string) error { return os.WriteFile(filepath.Join(home, "content/x"), nil, 0o600) }, true},
	} {
		to := t.TempDir()
		for _, upTo := range []uint64{1 << 20, 3 << 19} { // two claims
			landing := land(t, to, source.Info())
			if err := errors.Join(deliver(source, landing, upTo, whole), landing.Keep()); err != nil {
				t.Fatal(err)
			}
		}
		if err := edit.do(object.PartialOf(to, source.Info())); err != nil {
			t.Fatal(err)
		}
		landing := land(t, to, source.Info())
		if resumed := landing.Offset() > 0; resumed != edit.resume {
			t.Errorf("%s: goes on at %d", name, landing.Offset())
		}
		err := landWhole(t, source, landing)
		if errors.Is(err, object.ErrDamaged) && name == "one file more" {
			continue
		}
		if there, _, existErr := object.Existing(t.Context(), to, source.Info()); err != nil || existErr != nil || there != rootOf(t, source) {
			t.Errorf("%s: %v, root %v %v", name, err, there, existErr)
		}
	}
}

// overwrite changes one byte; a negative place counts from the end.
func overwrite(home, name string, at int64) error {
	path := filepath.Join(home, name)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if at < 0 {
		at += int64(len(content))
	}
	content[at] ^= 1
	return os.WriteFile(path, content, 0o600)
}

func relink(path, target string) error { return errors.Join(os.Remove(path), os.Symlink(target, path)) }

// C54: edited while it lands, after it was hashed: the size tells or a link
// does. (A byte overwritten in place by whoever may write there is not seen.)
func TestC54EditedWhileLanding(t *testing.T) {
	for name, edit := range map[string]func(content string) error{
		"appended":    func(content string) error { return os.WriteFile(content, []byte("hello!"), 0o600) },
		"linked away": func(content string) error { return os.Link(content, content+"-too") },
		"replaced":    func(content string) error { return relink(content, "/etc/hostname") },
		"removed":     os.Remove,
	} {
		to := t.TempDir()
		landing := land(t, to, hello)
		if err := put(landing, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := edit(filepath.Join(object.PartialOf(to, hello), "content")); err != nil {
			t.Fatal(err)
		}
		if err := landing.Complete(5, object.Sum([]byte("hello")), true); err == nil || !missing(filepath.Join(to, "it")) {
			t.Errorf("%s: it is complete", name)
		}
	}
}

// An interrupted landing of an older content is another partial, and after one whose content
// turns out to be another the next begins with nothing.
func TestPartialOfAnotherContent(t *testing.T) {
	to := t.TempDir()
	info := object.Info{Name: "it", Kind: object.File, Length: 5, Time: time.Unix(1, 0)}
	landing := land(t, to, info)
	if err := put(landing, []byte("hul")); err != nil {
		t.Fatal(err)
	}
	if err := landing.Keep(); err != nil {
		t.Fatal(err)
	}
	newer := info
	newer.Time = time.Unix(2, 0)
	if err := completeHello(t, land(t, to, newer)); err != nil {
		t.Error(err)
	}
	landing = land(t, to, info)
	if landing.Offset() != 3 {
		t.Fatalf("it goes on at %d, want 3", landing.Offset())
	}
	if err := put(landing, []byte("lo")); err != nil {
		t.Fatal(err)
	}
	if err := landing.Complete(5, object.Sum([]byte("hello")), true); !errors.Is(err, object.ErrDamaged) {
		t.Fatalf("%v, want %v", err, object.ErrDamaged)
	}
	landing = land(t, to, info)
	if landing.Offset() != 0 {
		t.Fatalf("it goes on at %d, want 0", landing.Offset())
	}
	if err := completeHello(t, landing); err != nil {
		t.Error(err)
	}
}

func TestSweep(t *testing.T) {
	to := t.TempDir()
	for i := range 3 {
		info := hello
		info.Time = time.Unix(int64(i), 0)
		landing := land(t, to, info)
		if err := errors.Join(put(landing, []byte("he")), landing.Keep()); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(filepath.Join(object.PartialOf(to, info), "journal"), old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		olderThan time.Duration
		removed   int
	}{{3 * time.Hour, 0}, {30 * time.Minute, 2}, {30 * time.Minute, 0}, {0, 1}, {0, 0}} {
		if removed, err := object.Sweep(to, step.olderThan); removed != step.removed || err != nil {
			t.Errorf("older than %v: swept %d, %v; want %d", step.olderThan, removed, err, step.removed)
		}
	}
	if left := tree(t, to); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// A landing of more than is worth hashing twice can be canceled, and nothing is lost.
func TestLandIsCanceled(t *testing.T) {
	to := t.TempDir()
	landing := land(t, to, hello)
	if err := errors.Join(put(landing, []byte("hel")), landing.Keep()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := object.Land(ctx, to, hello); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it canceled", err)
	}
	if again := land(t, to, hello); again.Offset() != 3 {
		t.Errorf("goes on at %d, want 3", again.Offset())
	}
}
