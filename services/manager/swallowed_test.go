package manager_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// A manager whose way to the one that leads swallows everything, while both reach the store, says that it has no leader, so that its clients ask
// others; and it passes on again soon after the way is open.
func TestTheWayToTheLeaderSwallows(t *testing.T) {
	t.Parallel()
	dir, etcd, listen := t.TempDir(), storetest.StartEtcd(t), testprocess.FreeAddress(t)
	way := newSilencer(t, listen)
	shared := []string{"--store-endpoints=" + etcd.Endpoint, "--identity-ca-dir=" + filepath.Join(dir, "ca")}
	leader := managertest.NewProcess(t, filepath.Join(dir, "leader"), append(shared, "--name=leader", "--grpc-listen="+listen, "--address="+way.address)...)
	leader.Address = listen
	follower := managertest.NewProcess(t, filepath.Join(dir, "follower"), append(shared, "--name=follower")...)
	for _, p := range []*managertest.Process{leader, follower} {
		p.Start(t)
		p.WaitServing(t)
		awaitStatus(t, p, "knows who leads", func(status sdk.Status) bool { return status.Leader == "leader" })
	}
	asked := follower.Client(t)
	create := func(within time.Duration, name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := asked.CreateGroup(ctx, name, sdk.Policy{})
		return err
	}
	for i := range 32 { // over each of its connections
		if err := create(30*time.Second, fmt.Sprintf("before-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	way.set(true)
	var refused *sdk.Error
	if err := create(25*time.Second, "meanwhile"); !errors.As(err, &refused) || refused.Reason != "NO_LEADER" {
		t.Errorf("meanwhile: %v, want that it has no leader", err)
	}
	way.set(false)
	way.cut() // what was lost stays lost
	attempts := 0
	eventually(t, 15*time.Second, "it passes on again", func() bool {
		attempts++
		return create(5*time.Second, fmt.Sprintf("after-%d", attempts)) == nil
	})
}
