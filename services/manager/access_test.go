package manager_test

import (
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// The first operators of managers that know nothing of each other are each its own, though their configurations lie in one directory.
func TestOperatorsLieBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml"), filepath.Join(dir, "three")}
	for _, file := range files {
		p := managertest.NewProcess(t, t.TempDir(), "--admin-access-file="+file)
		p.Access = file
		p.Start(t)
		p.WaitServing(t)
	}
	for _, file := range files {
		client, err := sdk.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Status(t.Context()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
