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

// A directory of another user, which only that one can move, is known before anything comes.
func TestDirectoryOfAnotherUserIsNotReplaced(t *testing.T) {
	if !isNobody(t, func(home string) error { return os.Mkdir(filepath.Join(home, "it"), 0o755) }) {
		return
	}
	to := os.TempDir()
	if _, err := os.Lstat(filepath.Join(to, "it")); err != nil {
		t.Skip("only root can prepare this")
	}
	_, err := object.Land(t.Context(), to, object.Info{Name: "it", Kind: object.Directory, Length: 100, Mode: 0o755})
	if !object.IsRefused(err) || !strings.Contains(err.Error(), "of another user (0)") {
		t.Errorf("lands in place of another user's directory: %v", err)
	}
}
