package object_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// needRoot says what a test that mounts file systems or makes devices needs.
// Where the project is checked it must not be skipped.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this test mounts file systems: it needs root")
	}
	t.Skip("this test mounts file systems: it needs root")
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, output)
	}
}

// mount mounts a file system until the test ends.
func mount(t testing.TB, kind, options, device, dir string) (unmount func()) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", kind, "-o", options, device, dir)
	unmount = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	t.Cleanup(unmount)
	return unmount
}

// memory mounts a file system in memory.
func memory(t testing.TB, options string) string {
	t.Helper()
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "memory")
	mount(t, "tmpfs", options, "tmpfs", dir)
	return dir
}

// fill writes a file until nothing more fits.
func fill(t testing.TB, name string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
}
