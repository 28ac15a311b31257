package uplink

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// Nothing is asked for that could not be stored, as that would use up a join token. The check that it can be stored
// leaves nothing behind.
func TestNothingIsCertifiedThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	for name, want := range map[string]error{
		"file": syscall.ENOTDIR, "file/credentials": syscall.ENOTDIR, "": refused, "new/credentials": refused,
	} {
		_, err := certifyFirst(identity.FilesIn(filepath.Join(dir, name)), func([]byte) (*groupv1.Certificate, error) { return nil, refused })
		if !errors.Is(err, want) {
			t.Errorf("in %q: %v, want %v", name, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v: %v", left, err)
	}
}
