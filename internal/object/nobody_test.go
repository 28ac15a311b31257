package object_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/groupcast/groupcast/internal/object"
)

const nobody = 65534

// isNobody reports whether a test is run without privileges. Where it is not, the whole test is run again by a process that is, with the
// temporary directory in which root has prepared what it needs.
func isNobody(t *testing.T, prepare func(home string) error) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	home := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(home), 0o711), os.Chown(home, nobody, nobody), prepare(home)); err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), "TMPDIR="+home)
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if said, err := again.CombinedOutput(); err != nil || !strings.Contains(string(said), "--- PASS: "+t.Name()) {
		t.Errorf("as nobody: %v\n%s", err, said)
	}
	return false
}

// A directory that is closed to its owner gives its place to the next, and is closed to its owner still where that fails.
func TestReadOnlyDirectoryIsReplaced(t *testing.T) {
	if !isNobody(t, func(string) error { return nil }) {
		return
	}
	plantLocked := func(dir, content string) string {
		plant(t, dir, map[string]string{"it/a": content, "it/deep/b": content, "it/only " + content: content})
		lock(t, filepath.Join(dir, "it", "deep"))
		lock(t, filepath.Join(dir, "it"))
		return filepath.Join(dir, "it")
	}
	to := t.TempDir()
	there, from := plantLocked(to, "first"), plantLocked(t.TempDir(), "second")
	first, second := tree(t, there), tree(t, from)
	source := open(t, from)
	landing := land(t, to, source.Info())
	lock(t, to)
	if err := landWhole(t, source, landing); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("where nothing can be renamed: %v", err)
	}
	if got := tree(t, there); !maps.Equal(got, first) {
		t.Errorf("%v is there after that, want %v", got, first)
	}
	if err := errors.Join(os.Chmod(to, 0o755), landing.Keep(), landWhole(t, source, land(t, to, source.Info()))); err != nil {
		t.Fatal(err)
	}
	lock(t, filepath.Join(there, "deep"))
	lock(t, there)
	if got := tree(t, there); !maps.Equal(got, second) {
		t.Errorf("%v has landed, want %v", got, second)
	}
	if entries, err := os.ReadDir(to); err != nil || len(entries) != 1 {
		t.Errorf("%v is there: %v", entries, err)
	}
}

// What only another user can remove or replace is known before anything comes, and said.
func TestOfAnotherUser(t *testing.T) {
	prepare := func(home string) error {
		sticky := filepath.Join(home, "sticky")
		return errors.Join(os.Mkdir(filepath.Join(home, "it"), 0o755), os.Mkdir(sticky, 0o755), os.WriteFile(filepath.Join(sticky, "it"), nil, 0o666),
			os.Chmod(sticky, 0o777|os.ModeSticky), os.MkdirAll(filepath.Join(home, "begun", ".groupcast-partial"), 0o700), os.Chown(filepath.Join(home, "begun"), nobody, nobody))
	}
	if !isNobody(t, prepare) {
		return
	}
	for dir, test := range map[string]struct {
		kind object.Kind
		want string
	}{
		".":      {object.Directory, "it of another user (0)"},
		"sticky": {object.File, "it of another user (0)"},
		"begun":  {object.File, "what user 0, who received here before, has not finished is in .groupcast-partial"},
	} {
		_, err := object.Land(t.Context(), filepath.Join(os.TempDir(), dir), object.Info{Name: "it", Kind: test.kind, Length: 100, Mode: 0o755})
		if !object.IsRefused(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: lands in place of what is another user's: %v", dir, err)
		}
	}
}

// What another user has put into a directory cannot be removed when that is replaced. It is in no later landing's way.
func TestWhatAnotherUserPutThereIsSetAside(t *testing.T) {
	prepare := func(home string) error {
		theirs := filepath.Join(home, "it", "theirs")
		return errors.Join(os.MkdirAll(theirs, 0o755), os.WriteFile(filepath.Join(theirs, "log"), nil, 0o644), os.Chown(filepath.Dir(theirs), nobody, nobody))
	}
	if !isNobody(t, prepare) {
		return
	}
	to, from := os.TempDir(), t.TempDir()
	plant(t, from, map[string]string{"it/a": "a"})
	source := open(t, filepath.Join(from, "it"))
	wants := func(isLeft bool) {
		t.Helper()
		landing := land(t, to, source.Info())
		if err := landWhole(t, source, landing); err != nil {
			t.Fatal(err)
		}
		if left := landing.Left(); (left != nil) != isLeft {
			t.Errorf("left is %v", left)
		}
	}
	wants(true)
	aside, err := filepath.Glob(filepath.Join(to, ".groupcast-partial", "*", "content", "theirs", "log"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside: %v, %v", aside, err)
	}
	wants(false)
	top := filepath.Dir(filepath.Dir(filepath.Dir(aside[0])))
	if err := os.Rename(filepath.Join(top, "content"), filepath.Join(to, "it", "again")); err != nil { // as if it were put there anew
		t.Fatal(err)
	}
	wants(true)
	if removed, err := object.Sweep(to, 0); !errors.Is(err, fs.ErrPermission) || removed != 1 { // the one that is empty now
		t.Errorf("%d are removed: %v", removed, err)
	}
}

// A landing that was killed just as it replaced a directory finds that one where it had its own, with directories that are closed.
func TestTheReplacedMayBeInThePartial(t *testing.T) {
	if !isNobody(t, func(string) error { return nil }) {
		return
	}
	from, to := t.TempDir(), t.TempDir()
	plant(t, from, map[string]string{"it/sub/a": strings.Repeat("a", 1<<20), "it/sub/b": strings.Repeat("b", 1<<20)})
	source := open(t, filepath.Join(from, "it"))
	landing := land(t, to, source.Info())
	if err := errors.Join(deliver(source, landing, 1<<19, whole), landing.Keep()); err != nil {
		t.Fatal(err)
	}
	lock(t, filepath.Join(object.PartialOf(to, source.Info()), "content", "sub"))
	landing = land(t, to, source.Info())
	if landing.Offset() == 0 {
		t.Error("begins with nothing")
	}
	if err := landWhole(t, source, landing); err != nil {
		t.Error(err)
	}
}
