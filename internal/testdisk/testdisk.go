// Package testdisk gives tests file systems of their own: full ones, ones in memory, and ones that on a power
// cut lose what was not written to their disk.
package testdisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// NeedRoot skips a test that mounts file systems or makes devices, if it does not run as root.
// Where the project is checked, such a test must not be skipped: there it fails.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this test mounts file systems: it needs root")
	}
	t.Skip("this test mounts file systems: it needs root")
}

// Run runs a command, which has to succeed.
func Run(t testing.TB, name string, args ...string) {
	t.Helper()
	if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, output)
	}
}

// Mount mounts a file system until the test ends.
func Mount(t testing.TB, kind, options, device, dir string) (unmount func()) {
	t.Helper()
	NeedRoot(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	Run(t, "mount", "-t", kind, "-o", options, device, dir)
	unmount = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	t.Cleanup(unmount)
	return unmount
}

// Memory mounts a file system in memory.
func Memory(t testing.TB, options string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "memory")
	Mount(t, "tmpfs", options, "tmpfs", dir)
	return dir
}

// Loop makes a file of a size a block device until the test ends. The file's present content stays.
func Loop(t testing.TB, path string, size int64) (device string) {
	t.Helper()
	NeedRoot(t)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command("losetup", "--find", "--show", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	device = strings.TrimSpace(string(said))
	if isFixed, err := exec.Command("blockdev", "--getro", device).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, isFixed)
	} else if strings.TrimSpace(string(isFixed)) == "1" { // its last user left it read-only, and did not live to undo that
		Run(t, "losetup", "--detach", device)
		Run(t, "blockdev", "--setrw", device)
		Run(t, "losetup", device, path)
	}
	t.Cleanup(func() { Run(t, "losetup", "--detach", device) })
	return device
}

// Freeze has the file system of a directory answer no write until it is thawed, as if its device did not answer.
func Freeze(t testing.TB, dir string) (thaw func()) {
	t.Helper()
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(at.Fd()), freeze, 0); err != nil {
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		if err := errors.Join(unix.IoctlSetInt(int(at.Fd()), unfreeze, 0), at.Close()); err != nil {
			t.Errorf("thaw %s: %v", dir, err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// freeze and unfreeze are FIFREEZE and FITHAW of the kernel.
const freeze, unfreeze = 0xc0045877, 0xc0045878

// Fill writes a file until nothing more fits.
func Fill(t testing.TB, name string) {
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

// Disk is a disk whose power can be cut: its file system writes nothing back by itself for five minutes, so
// that what nobody synced is only in memory.
type Disk struct {
	Dir   string // where it is mounted
	image string
	work  string
	cuts  int
}

// New makes a disk, whose size is written as for truncate, until the test ends.
func New(t testing.TB, size string) *Disk {
	t.Helper()
	NeedRoot(t)
	work := Memory(t, "size=1g")
	d := &Disk{Dir: filepath.Join(work, "disk"), image: filepath.Join(work, "disk.img"), work: work}
	Run(t, "truncate", "-s", size, d.image)
	Run(t, "mkfs.ext4", "-q", d.image)
	Mount(t, "ext4", "loop,commit=300", d.image, d.Dir)
	return d
}

// Cut mounts what would be left of the disk if its power were cut now, until done is called. Nobody may write to the
// disk meanwhile.
func (d *Disk) Cut(t testing.TB) (dir string, done func()) {
	t.Helper()
	// Each has a file of its own: other programs, as containers that copy all mounts, may hold an earlier one for a moment, and what
	// they hold is still written to that.
	d.cuts++
	cut := filepath.Join(d.work, fmt.Sprintf("cut-%d.img", d.cuts))
	snapshot(t, d.image, cut)
	dir = filepath.Join(d.work, "after")
	unmount := Mount(t, "ext4", "loop", cut, dir)
	return dir, func() {
		unmount()
		if err := os.Remove(cut); err != nil {
			t.Error(err)
		}
	}
}

// snapshot copies a disk as it is at one moment. The file system may write while it is being
// copied, which gives a disk that never existed. But if the copy equals the disk afterwards, the
// disk was like this in between.
func snapshot(t testing.TB, disk, to string) {
	t.Helper()
	for range 20 {
		Run(t, "cp", "--sparse=always", disk, to)
		if exec.CommandContext(t.Context(), "cmp", "-s", disk, to).Run() == nil {
			return
		}
	}
	t.Fatal("the disk is written all the time")
}
