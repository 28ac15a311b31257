package manager_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// restoring returns a manager whose store was restored from a backup: before is done before the backup is made, after between that and its loss.
func restoring(t *testing.T, before, after func(m *managertest.Manager)) *managertest.Manager {
	t.Helper()
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	from := filepath.Join(dir, "store")
	m := managertest.Run(t, managertest.Config(dir))
	before(m)
	m.Stop(t)
	if err := os.CopyFS(backup, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	m = managertest.Run(t, managertest.Config(dir))
	after(m)
	m.Stop(t)
	if err := os.RemoveAll(from); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(from, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	return managertest.Run(t, managertest.Config(dir))
}

// After a backup was restored, certificates from what came after it have higher stamps than the store has revisions. A revocation holds for
// these, too, and none is renewed; a new token lets the identity in again.
func TestC30RevocationHoldsAfterARestore(t *testing.T) {
	var stolen *tls.Certificate
	eve := sdk.Token{Role: "operator", Name: "eve"}
	m := restoring(t, func(*managertest.Manager) {}, func(m *managertest.Manager) {
		for i := range 100 {
			createGroups(t, m, fmt.Sprintf("g%d", i))
		}
		stolen = certificateOf(t, m.Enroll(t, eve))
	})
	listGroups := func(certificate *tls.Certificate) string {
		return outcome(call(t, connect(t, m.Address, certificate), "groupcast.group.v1.GroupService", "ListGroups", nil))
	}
	if got := listGroups(stolen); got != allowed {
		t.Fatalf("before the revocation: %v", got)
	}
	if err := m.Client(t).Revoke(t.Context(), "operator", "eve"); err != nil {
		t.Fatal(err)
	}
	if got := listGroups(stolen); got != denied {
		t.Errorf("with a certificate from before the restore: %v", got)
	}
	if renewed := renew(t, connect(t, m.Address, stolen)); renewed != nil {
		t.Error("a certificate from before the restore was renewed")
	}
	certificate := certificateOf(t, m.Enroll(t, eve))
	for range 2 {
		if got := listGroups(certificate); got != allowed {
			t.Errorf("with a certificate that was issued since: %v", got)
		}
		if certificate = renew(t, connect(t, m.Address, certificate)); certificate == nil {
			t.Fatal("a certificate that was issued since is not renewed")
		}
	}
}
