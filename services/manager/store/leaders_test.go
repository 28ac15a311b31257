package store_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

func testLeaders(t *testing.T, s *store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	seen := make(chan store.Leader, 100)
	go func() { _ = s.Leaders(ctx, func(leader store.Leader) { seen <- leader }) }()
	await := func(name string, number uint64) {
		t.Helper()
		for {
			select {
			case leader := <-seen:
				if leader.Name == name && leader.Term == number {
					return
				}
			case <-ctx.Done():
				t.Fatalf("did not see %q lead in term %d", name, number)
			}
		}
	}
	await("", 0)
	first := lead(t, s, "a")
	await("a", first.Number)
	first.Resign()
	await("", 0)
	second := lead(t, s, "b")
	await("b", second.Number)
}

// A manager that waits to lead stops when it is told to, though etcd does not answer.
func TestCampaignEndsWithoutEtcd(t *testing.T) {
	etcd := storetest.StartEtcd(t)
	s, err := store.OpenExternal(t.Context(), []string{etcd.Endpoint}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	lead(t, s, "a")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Campaign(ctx, store.Candidate{Name: "b"})
		ended <- err
	}()
	time.Sleep(time.Second) // it waits
	etcd.Freeze(t)
	defer etcd.Thaw(t)
	stop()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it leads beside another")
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not stop")
	}
}
