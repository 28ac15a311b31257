package object_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// What is mounted where an object shall be, or below, is neither replaced nor removed: nothing of the object need come.
func TestNothingMountedIsReplaced(t *testing.T) {
	disk := testdisk.Memory(t, "size=1m")
	if err := os.WriteFile(filepath.Join(disk, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kind object.Kind
		at   string
	}{
		"a directory":              {object.Directory, "it"},
		"below a directory":        {object.Directory, "it/deep/down"},
		"a file":                   {object.File, "it"},
		"a name that has a space":  {object.Directory, "it/with a space"},
		"beside it":                {object.Directory, "its"},
		"whole in which it is put": {object.Directory, "."},
	} {
		to := t.TempDir()
		at := filepath.Join(to, test.at)
		from := disk
		if test.kind == object.File {
			from = filepath.Join(disk, "precious")
			plant(t, to, map[string]string{"it": ""})
		} else {
			plant(t, to, map[string]string{"it/": "", test.at + "/": ""})
		}
		if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		landing, err := object.Land(t.Context(), to, object.Info{Name: "it", Kind: test.kind, Length: 100, Mode: 0o755})
		isIn := test.at == "it" || strings.HasPrefix(test.at, "it/")
		if isIn != object.IsRefused(err) || isIn != (err != nil && strings.Contains(err.Error(), "mounted at "+at+",")) {
			t.Errorf("%s: %v", name, err)
		}
		if landing != nil {
			_ = landing.Remove()
		}
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
	}
}
