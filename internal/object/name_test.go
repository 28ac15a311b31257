package object_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// refusedPaths could leave the directory they land in, or are not one name everywhere.
var refusedPaths = []string{
	"", ".", "..", "../x", "../../x", "../../../../../../etc/passwd", "a/..", "a/../x", "a/../../x", "a/b/../../../x", "./x", "a/.", "a/./x",
	"/", "//", "/x", "//x", "/etc/passwd", "x/", "a/x/", "a//x", "a/x//", "/../x", "../", "..//x",
	"\x00", "x\x00", "x\x00.txt", "../\x00", "a/\x00/x", "\x00/../x",
	strings.Repeat("n", 256), "a/" + strings.Repeat("n", 256), strings.Repeat("ü", 128), strings.Repeat("n", 5<<10),
	strings.Repeat("a/", 2049) + "x", strings.Repeat("../", 1000) + "x",
	"\xff", "x\xff", "a/\xc3\x28", "\xc0\xae\xc0\xae/x", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80",
	".groupcast-partial", ".groupcast-partial/x", "a/.groupcast-partial", ".groupcast-partial-2", ".groupcast-relay", ".Groupcast-Partial", ".GROUPCAST-PARTIAL/x", ".groupcast\u002dpartial",
	".groupca\u017ft-partial", // the long s folds to s
}

// oddPaths are names like others on Linux.
var oddPaths = []string{
	"...", "..x", "x..", "a/...", "-rf", "--", "~", "~root", "$HOME", "`id`", "%2e%2e%2fx", "..%2fx", "\\..\\x", "..\\..\\x", "C:\\x", "c:", "con", "nul", "aux.txt",
	"\n", "x\ny", "\r", "\t", "\x1b[31m", "\x7f", " ", " x", "x ", "x.", "*", "?", "a/*", "'", "\"", "|", ";", "&", "<", ">",
	"\u202e", "\u200b", "\ufeff", "\u2025", "\uff0e\uff0e", "\uff0f", "\u2215", "ü", "u\u0308", "日本語", "🗂", strings.Repeat("n", 255),
	".groupcast", "groupcast-partial", "proc/self/root", "dev/null",
}

// Whatever is accepted is one name in its directory, and not one of those that Groupcast keeps to itself.
func FuzzName(f *testing.F) {
	for _, path := range append(refusedPaths, oddPaths...) {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if err := object.CheckName(name); err != nil {
			if !errors.Is(err, object.ErrName) {
				t.Fatalf("%v: want ErrName", err)
			}
			return
		}
		if !filepath.IsLocal(name) || filepath.Base(name) != name || filepath.Join("/into", name) != "/into/"+name || len(name) > 255 || object.IsPartial(name) {
			t.Fatalf("%q is accepted", name)
		}
	})
}

// C55: every name stays inside the root or is refused, as the name of an object
// and in a table.
func TestC55Names(t *testing.T) {
	if all := len(refusedPaths) + len(oddPaths); all < 60 {
		t.Fatalf("the corpus has only %d names", all)
	}
	outer := t.TempDir()
	to := filepath.Join(outer, "one", "two")
	plant(t, outer, map[string]string{"one/two/": "", "x": "outside", "one/x": "outside"})
	before := tree(t, outer)
	for _, path := range refusedPaths {
		if err := landTree(t, to, path); !errors.Is(err, object.ErrTable) {
			t.Errorf("%.50q in a table: %v, want it refused", path, err)
		}
		if _, err := object.Land(t.Context(), to, object.Info{Name: path, Kind: object.File}); !errors.Is(err, object.ErrName) {
			t.Errorf("%.50q as a name: %v, want it refused", path, err)
		}
	}
	if diff := cmp.Diff(before, tree(t, outer)); diff != "" {
		t.Fatalf("refused names left something (-before +after):\n%s", diff)
	}
	for _, path := range oddPaths {
		if err := landTree(t, to, path); err != nil {
			t.Errorf("%q in a table: %v", path, err)
		}
		if content, err := os.ReadFile(filepath.Join(to, "landed", path)); err != nil || string(content) != "hello" {
			t.Errorf("%q: %q %v, want it inside", path, content, err)
		}
		if err := os.RemoveAll(filepath.Join(to, "landed")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, tree(t, outer)); diff != "" {
		t.Errorf("something outside changed (-before +after):\n%s", diff)
	}
}

// landTree lets a directory land that has one file, and the directories it is in.
func landTree(t *testing.T, to, path string) error {
	t.Helper()
	var entries []object.Entry
	for i, r := range path {
		if r == '/' && i > 0 && len(path) < 5000 {
			entries = append(entries, dir(path[:i]))
		}
	}
	entries = append(entries, file(path, 5))
	head := object.AppendHead(nil, entries...)
	content := append(head, "hello"...)
	info := object.Info{Name: "landed", Kind: object.Directory, Length: uint64(len(content)), Mode: 0o755}
	landing := land(t, to, info)
	if err := put(landing, content); err != nil {
		return errors.Join(err, landing.Remove())
	}
	return landing.Complete(info.Length, object.Sum(content), false)
}

// hello is an object for the tests that are about where it lands.
var hello = object.Info{Name: "it", Kind: object.File, Length: 5, Mode: 0o644}

func completeHello(t *testing.T, landing *object.Landing) error {
	t.Helper()
	if err := put(landing, []byte("hello")); err != nil {
		return err
	}
	return landing.Complete(5, object.Sum([]byte("hello")), true)
}

// C55: what has the final name and is no file is neither opened nor replaced.
func TestC55FinalNameTaken(t *testing.T) {
	testdisk.NeedRoot(t)
	outside := filepath.Join(t.TempDir(), "outside")
	for name, take := range map[string]func(path string) error{
		"fifo":             func(path string) error { return unix.Mkfifo(path, 0o600) },
		"device":           func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
		"socket":           func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"symlink":          func(path string) error { return os.Symlink(outside, path) },
		"dangling symlink": func(path string) error { return os.Symlink("nowhere", path) },
		"directory":        func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		to := t.TempDir()
		landing := land(t, to, hello)
		if err := take(filepath.Join(to, "it")); err != nil {
			t.Fatal(name, err)
		}
		before, err := os.Lstat(filepath.Join(to, "it"))
		if err != nil {
			t.Fatal(err)
		}
		if err := completeHello(t, landing); !errors.Is(err, object.ErrName) {
			t.Errorf("%s that came while landing: %v, want it refused", name, err)
		}
		if err := landing.Keep(); err != nil {
			t.Error(err)
		}
		if _, err := object.Land(t.Context(), to, hello); !errors.Is(err, object.ErrName) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		if after, err := os.Lstat(filepath.Join(to, "it")); err != nil || !os.SameFile(before, after) || !missing(outside) {
			t.Errorf("%s was replaced: %v", name, err)
		}
	}
}

// C55: a file with the final name and other names keeps its content under those.
func TestC55HardLinkAtFinalName(t *testing.T) {
	to := t.TempDir()
	plant(t, to, map[string]string{"other": "precious"})
	if err := os.Link(filepath.Join(to, "other"), filepath.Join(to, "it")); err != nil {
		t.Fatal(err)
	}
	if err := completeHello(t, land(t, to, hello)); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, to); got["other"] != "-rw-r--r-- precious" || got["it"] != "-rw-r--r-- hello" {
		t.Errorf("%v", got)
	}
}

// C55: links that somebody puts into a partial lead nowhere: not before it is
// opened, and not while bytes land.
func TestC55LinksInPartial(t *testing.T) {
	outside := t.TempDir()
	plant(t, outside, map[string]string{"precious": "precious"})
	precious := filepath.Join(outside, "precious")
	for name, spoil := range map[string]func(home string) error{
		"symlink as journal":   func(home string) error { return os.Symlink(precious, filepath.Join(home, "journal")) },
		"hard link as journal": func(home string) error { return os.Link(precious, filepath.Join(home, "journal")) },
		"fifo as journal":      func(home string) error { return unix.Mkfifo(filepath.Join(home, "journal"), 0o600) },
		"symlink as content":   func(home string) error { return os.Symlink(precious, filepath.Join(home, "content")) },
		"hard link as content": func(home string) error { return os.Link(precious, filepath.Join(home, "content")) },
		"symlink as home":      func(home string) error { return errors.Join(os.Remove(home), os.Symlink(outside, home)) },
		"symlink as partials": func(home string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(home)), os.Symlink(outside, filepath.Dir(home)))
		},
	} {
		to := t.TempDir()
		home := object.PartialOf(to, hello)
		if err := errors.Join(os.MkdirAll(home, 0o700), spoil(home)); err != nil {
			t.Fatal(err)
		}
		landing, err := object.Land(t.Context(), to, hello)
		if err == nil {
			err = completeHello(t, landing)
			_ = landing.Remove()
		}
		t.Logf("%s: %v", name, err)
		if got := tree(t, outside); len(got) != 2 || got["precious"] != "-rw-r--r-- precious" {
			t.Errorf("%s: outside is %v", name, got)
		}
		if content, missing := os.ReadFile(filepath.Join(to, "it")); (err == nil) != (missing == nil) || err == nil && string(content) != "hello" {
			t.Errorf("%s: %v, and the content is %q %v", name, err, content, missing)
		}
	}
}

// C55: a directory of the tree is swapped for a link between two sections.
func TestC55SwapWhileLanding(t *testing.T) {
	for name, target := range map[string]string{"outside": "", "inside": "b", "up": "../.."} {
		outside := t.TempDir()
		if target == "" {
			target = outside
		}
		entries := []object.Entry{dir("a"), file("a/1", 5), file("a/2", 5), dir("b"), file("b/3", 5)}
		head := object.AppendHead(nil, entries...)
		content := append(head, "hellohellohello"...)
		to := t.TempDir()
		info := object.Info{Name: "it", Kind: object.Directory, Length: uint64(len(content)), Mode: 0o755}
		landing := land(t, to, info)
		if err := put(landing, content[:len(head)+5]); err != nil {
			t.Fatal(err)
		}
		a := filepath.Join(object.PartialOf(to, info), "content", "a")
		if err := errors.Join(os.Rename(a, a+"-away"), os.Symlink(target, a)); err != nil {
			t.Fatal(err)
		}
		err := put(landing, content[len(head)+5:])
		if err == nil {
			err = landing.Complete(info.Length, object.Sum(content), true)
		}
		if err == nil || !missing(filepath.Join(to, "it")) {
			t.Errorf("%s: a tree with a link in it landed", name)
		}
		if got := tree(t, outside); len(got) != 1 {
			t.Errorf("%s: outside is %v", name, got)
		}
	}
}

// Twins on one file system, say, of a sender whose file system tells them apart,
// are refused before anything is sent; so is all that is no file or directory.
func TestOpenRefuses(t *testing.T) {
	testdisk.NeedRoot(t)
	from := t.TempDir()
	plant(t, from, map[string]string{"it/A": "", "it/a": "", "it/ok": "", "link/ok": "", "bytes/x\xff": "", "partial/.groupcast-partial/": ""})
	for _, err := range []error{
		unix.Mkfifo(filepath.Join(from, "fifo"), 0o600), os.Symlink("it", filepath.Join(from, "toplink")),
		os.Symlink("ok", filepath.Join(from, "link/to")), unix.Mkfifo(filepath.Join(from, "link/pipe"), 0o600),
		unix.Mknod(filepath.Join(from, "link/socket"), unix.S_IFSOCK|0o600, 0),
		unix.Mknod(filepath.Join(from, "link/null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, words := range map[string][]string{
		"it": {`"A" and "a" are one name`}, "fifo": {"a named pipe"}, "toplink": {"a symbolic link"}, "missing": {"no such file"},
		"link":  {"null: it is a device", "pipe: it is a named pipe", "socket: it is a socket", "to: it is a symbolic link"},
		"bytes": {"not UTF-8"}, "partial": {"is reserved"},
	} {
		_, err := object.Open(t.Context(), filepath.Join(from, name))
		for _, word := range words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, want %q", name, err, word)
			}
		}
	}
	for i := range 100 {
		if err := os.Symlink("x", filepath.Join(from, "link", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := object.Open(t.Context(), filepath.Join(from, "link")); err == nil || !strings.Contains(err.Error(), "and 84 more") || strings.Count(err.Error(), "\n") > 20 {
		t.Errorf("104 problems: %v", err)
	}
}
