package device_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/replicator/device"
)

// What something may write to meanwhile is no source, also where no mount tells: what somebody has for itself. One
// that is mounted read-only is.
func TestSourcesInUse(t *testing.T) {
	testdisk.NeedRoot(t)
	disk := newDisk(t, 32<<20).device
	testdisk.Run(t, "mkfs.ext4", "-q", disk)
	wantRefused := func(refused bool) {
		t.Helper()
		source, err := device.OpenSource(disk)
		if err == nil {
			defer source.Close()
		}
		if errors.Is(err, device.ErrRefused) != refused || !refused && err != nil {
			t.Errorf("refused: %t, %v", refused, err)
		}
	}
	wantRefused(false)
	claimed, err := os.OpenFile(disk, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(true)
	if err := claimed.Close(); err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	for options, refused := range map[string]bool{"rw": true, "ro": false} {
		unmount := testdisk.Mount(t, "ext4", options, disk, at)
		wantRefused(refused)
		unmount()
	}
	// So a service's sandbox shows what was mounted read-write before, and a container a volume that it is to read alone.
	unmount := testdisk.Mount(t, "ext4", "rw", disk, at)
	testdisk.Run(t, "mount", "-o", "remount,bind,ro", at)
	wantRefused(true)
	unmount()
	wantRefused(false)
}

// A directory fits on no device, however large that is: nobody is told to name another.
func TestDirectoryForADevice(t *testing.T) {
	info := object.Info{Name: "models", Kind: object.Directory, Length: 1 << 50}
	_, found := device.Find(device.Target{Path: "/dev/sda"}, info)
	_, landed := device.Land(t.Context(), device.Target{Path: "/dev/sda"}, info)
	for _, err := range []error{found, landed} {
		if !errors.Is(err, device.ErrRefused) || !strings.Contains(err.Error(), "not a directory") {
			t.Error(err)
		}
	}
}
