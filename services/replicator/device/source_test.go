package device_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/replicator/device"
)

func run(t *testing.T, command ...string) string {
	t.Helper()
	said, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, said)
	}
	return strings.TrimSpace(string(said))
}

// What something may write to meanwhile is no source, also where no mount tells: what somebody has for itself. One
// that is mounted read-only is.
func TestSourcesInUse(t *testing.T) {
	testdisk.NeedRoot(t)
	image := filepath.Join(t.TempDir(), "disk")
	run(t, "truncate", "-s", "32M", image)
	run(t, "mkfs.ext4", "-q", image)
	disk := run(t, "losetup", "--find", "--show", image)
	defer run(t, "losetup", "--detach", disk)
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
		run(t, "mount", "-o", options, disk, at)
		wantRefused(refused)
		run(t, "umount", at)
	}
	wantRefused(false)
}
