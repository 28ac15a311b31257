package identity_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// A file that cannot be written is named once, and the draft that was to take its place is not.
func TestFullDiskNamesTheFile(t *testing.T) {
	disk := testdisk.Memory(t, "size=64k")
	name := filepath.Join(disk, "big")
	err := identity.WriteFile(name, make([]byte, 1<<20), 0o600)
	if want := "write " + name + ": no space left on device"; !errors.Is(err, syscall.ENOSPC) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
