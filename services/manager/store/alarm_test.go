package store_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// A cluster elsewhere that has no room says so to those who do not write, too, until its alarm is off.
func TestAlarmOfAClusterIsKnown(t *testing.T) {
	etcd := storetest.StartEtcd(t)
	s, err := store.OpenExternal(t.Context(), []string{etcd.Endpoint}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := s.Room(); err != nil {
		t.Fatal(err)
	}
	for _, action := range []etcdserverpb.AlarmRequest_AlarmAction{etcdserverpb.AlarmRequest_ACTIVATE, etcdserverpb.AlarmRequest_DEACTIVATE} {
		alarm := &etcdserverpb.AlarmRequest{Action: action, Alarm: etcdserverpb.AlarmType_NOSPACE}
		if _, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
			t.Fatal(err)
		}
		full, deadline := action == etcdserverpb.AlarmRequest_ACTIVATE, time.Now().Add(20*time.Second)
		for errors.Is(s.Room(), store.ErrFull) != full {
			if time.Now().After(deadline) {
				t.Fatalf("after %v: %v", action, s.Room())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
