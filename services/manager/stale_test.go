package manager_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/manager/managertest"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// A manager that is cut off from its store does not know what has changed: it ends its watches, rather than to send heartbeats as if nothing
// had, and begins none, so that watchers go to another one. A watch of a store in which nothing changes goes on.
func TestWatchesEndWhereTheStoreIsNotHeard(t *testing.T) {
	t.Parallel()
	dir, etcd := t.TempDir(), storetest.StartEtcd(t)
	way := newSilencer(t, strings.TrimPrefix(etcd.Endpoint, "http://"))
	start := func(name, endpoint string) groupv1.IdentityServiceClient {
		t.Helper()
		config := managertest.Config(filepath.Join(dir, name))
		config.Name, config.Store.Endpoints, config.Identity.CADir = name, []string{endpoint}, filepath.Join(dir, "ca")
		access := mustRead(t, managertest.Run(t, config).Access)
		connection, err := uplink.Dial(access, slog.New(slog.DiscardHandler), grpc.WithDisableRetry())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		return groupv1.NewIdentityServiceClient(connection)
	}
	heard, cutOff := start("heard", etcd.Endpoint), start("cut-off", "http://"+way.address)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := func(at groupv1.IdentityServiceClient, told func()) error {
		stream, err := at.WatchRevocations(ctx, &groupv1.WatchRevocationsRequest{})
		for err == nil {
			if _, err = stream.Recv(); err == nil {
				told()
			}
		}
		return err
	}
	goesOn := make(chan error, 1)
	go func() { goesOn <- watch(heard, func() {}) }()
	for _, what := range []string{"a watch that has begun", "another watch"} {
		if err := watch(cutOff, func() { way.set(true) }); managertest.Reason(err) != "STORE_UNAVAILABLE" {
			t.Errorf("%s ends with %v, want that the store does not answer", what, err)
		}
	}
	cancel()
	if err := <-goesOn; status.Code(err) != codes.Canceled {
		t.Errorf("where the store is heard, a watch ended with %v", err)
	}
	way.set(false)
	way.cut() // what was lost stays lost
}
