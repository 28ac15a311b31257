package device_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/replicator/device"
)

// Of each file system that is known the unused part is left out, whatever was there. What is made of the rest is whole, as the file
// system's own program tells, and has the same files.
func TestUnusedOfEachFileSystem(t *testing.T) {
	testdisk.NeedRoot(t)
	const size = 320 << 20 // xfs wants 300 MiB
	for name, with := range map[string]struct{ make, mount, check []string }{
		"ext4":  {[]string{"mkfs.ext4", "-q"}, []string{"mount"}, []string{"fsck.ext4", "-f", "-n"}},
		"xfs":   {[]string{"mkfs.xfs", "-q"}, []string{"mount"}, []string{"xfs_repair", "-n"}},
		"btrfs": {[]string{"mkfs.btrfs", "-q"}, []string{"mount"}, []string{"btrfs", "check"}},
		"ntfs":  {[]string{"mkntfs", "-Q"}, []string{"ntfs-3g"}, []string{"ntfsfix", "--no-action"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(command []string, more ...string) {
				t.Helper()
				testdisk.Run(t, command[0], append(command[1:len(command):len(command)], more...)...)
			}
			mounted := func(device string, do func(at string)) {
				t.Helper()
				at := t.TempDir()
				run(with.mount, device, at)
				defer func() {
					testdisk.Run(t, "umount", at)
					awaitFree(t, device)
				}()
				do(at)
			}
			disk, files, gone := testdisk.Loop(t, filepath.Join(dir, "disk"), size), filepath.Join(dir, "files"), []byte("what was deleted ")
			run(with.make, disk)
			mounted(disk, func(at string) {
				for file, content := range map[string][]byte{"tiny": []byte("a few bytes"), "large": bytes.Repeat([]byte("what is kept, again and again "), 1<<18), "deleted": bytes.Repeat(gone, 1<<20)} {
					if err := os.WriteFile(filepath.Join(at, file), content, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				testdisk.Run(t, "sync", "--file-system", at)
				testdisk.Run(t, "rm", filepath.Join(at, "deleted"))
				testdisk.Run(t, "cp", "--recursive", at, files)
			})
			copied := filepath.Join(dir, "copy")
			left := copyUsed(t, disk, copied, size)
			if left < size/2 {
				t.Errorf("%d of %d bytes are left out", left, size)
			}
			second := testdisk.Loop(t, copied, size)
			if content, err := os.ReadFile(copied); err != nil || bytes.Contains(content, bytes.Repeat(gone, 10)) {
				t.Errorf("what was deleted came along (%v)", err)
			}
			run(with.check, second)
			mounted(second, func(at string) { testdisk.Run(t, "diff", "--recursive", files, at) })
		})
	}
}

// awaitFree waits until nobody has a device: the program of a file system in user space ends a moment after it is unmounted.
func awaitFree(t *testing.T, device string) {
	t.Helper()
	for range 200 {
		file, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
		if err == nil {
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s is in use for good", device)
}

// copyUsed copies what is used of a device to a file, and returns how many bytes are left out.
func copyUsed(t *testing.T, from, to string, size uint64) (left uint64) {
	t.Helper()
	source, err := device.OpenUsed(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	holes, err := source.Holes()
	if err != nil || source.Info().Length != size {
		t.Fatalf("%d bytes of %d, %v", source.Info().Length, size, err)
	}
	for _, hole := range holes {
		left += hole.End - hole.First
	}
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 1<<20)
	for at := uint64(0); at < size; at += uint64(len(part)) {
		if err := source.ReadAt(part, at); err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(part, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return left
}

// A snapshot is a source while what it was made of is written to, and stays as it was.
func TestSnapshotIsASource(t *testing.T) {
	testdisk.NeedRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "disk")
	disk, at := testdisk.Loop(t, file, 32<<20), t.TempDir()
	testdisk.Run(t, "mkfs.ext4", "-q", disk)
	defer testdisk.Mount(t, "ext4", "rw", disk, at)()
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(at, "file"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("as it was")
	thaw := testdisk.Freeze(t, at)
	copied := filepath.Join(dir, "snapshot")
	testdisk.Run(t, "cp", file, copied)
	thaw()
	snapshot := testdisk.Loop(t, copied, 32<<20)
	testdisk.Run(t, "blockdev", "--setro", snapshot)
	defer testdisk.Run(t, "blockdev", "--setrw", snapshot)
	write("as it is")

	if _, err := device.OpenSource(disk); !errors.Is(err, device.ErrRefused) {
		t.Errorf("what is written to: %v", err)
	}
	source, err := device.OpenSource(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	content := make([]byte, 32<<20)
	if err := errors.Join(source.ReadAt(content, 0), source.Changed()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte("as it was")) || bytes.Contains(content, []byte("as it is")) {
		t.Error("the snapshot is not as it was")
	}
}
