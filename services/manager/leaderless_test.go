package manager_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Managers whose store does not answer name no leader, whether they led or followed, and say that nothing is written.
func TestNobodyLeadsWithoutTheStore(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 2)
	cluster.Leader(t)
	cluster.Etcd.Freeze(t)
	for _, asked := range cluster.Managers {
		awaitStatus(t, asked, "leads nobody", func(status sdk.Status) bool { return status.Leader == "" && status.ReadOnlyReason != "" })
	}
	cluster.Etcd.Thaw(t)
	for _, asked := range cluster.Managers {
		awaitStatus(t, asked, "goes on", func(status sdk.Status) bool { return status.Leader != "" && status.ReadOnlyReason == "" })
	}
}

// A manager that has another's name says so.
func TestTwoManagersOfOneName(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 1)
	dir := filepath.Dir(cluster.Managers[0].Dir)
	twin := managertest.NewProcess(t, filepath.Join(dir, "twin"), "--name=manager-0", "--store-endpoints="+cluster.Etcd.Endpoint, "--identity-ca-dir="+filepath.Join(dir, "ca"))
	twin.Start(t)
	twin.WaitServing(t)
	said := func() bool {
		return strings.Contains(twin.Said()+cluster.Managers[0].Said(), "another manager has this one's name")
	}
	eventually(t, 30*time.Second, "one of them says that there are two", said)
}

// awaitStatus waits until a manager's status is as it has to be.
func awaitStatus(t *testing.T, asked *managertest.Process, what string, is func(sdk.Status) bool) {
	t.Helper()
	client, deadline := asked.Client(t), time.Now().Add(30*time.Second)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		status, err := client.Status(ctx)
		cancel()
		if err == nil && is(status) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not after 30 s: %s: %+v, %v", what, status, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
