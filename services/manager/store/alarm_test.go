package store_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// A cluster elsewhere that has no room says so also to managers that do not write, until its alarm is off, whichever of its members are away.
func TestAlarmOfAClusterIsKnown(t *testing.T) {
	etcd, away := storetest.StartEtcd(t), "http://"+testprocess.FreeAddress(t)
	s, err := store.OpenExternal(t.Context(), []string{away, etcd.Endpoint}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.WriteRefusal(); err != nil {
		t.Fatal(err)
	}
	await := func(full bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); errors.Is(s.WriteRefusal(), store.ErrFull) != full; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("full %t: %v", full, s.WriteRefusal())
			}
		}
	}
	etcd.Fill(t)
	await(true)
	etcd.Empty(t)
	await(false)
}
