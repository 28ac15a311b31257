package manager_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager"
	"github.com/groupcast/groupcast/services/manager/managertest"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// An external etcd that asks for certificates is used with the right ones only.
func TestExternalEtcdWithTLS(t *testing.T) {
	t.Parallel()
	right := storetest.NewCertificates(t)
	etcd := storetest.StartSecureEtcd(t, right)
	config := managertest.Config(t.TempDir())
	config.Store.Endpoints = []string{etcd.Endpoint}
	config.Store.CertFile, config.Store.KeyFile, config.Store.CAFile = right.CertFile, right.KeyFile, right.CAFile
	m := managertest.Run(t, config)
	if _, err := m.Client(t).CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}

	wrong := storetest.NewCertificates(t)
	p := managertest.NewProcess(t, t.TempDir(), "--store-endpoints="+etcd.Endpoint,
		"--store-cert-file="+wrong.CertFile, "--store-key-file="+wrong.KeyFile, "--store-ca-file="+right.CAFile)
	p.Start(t)
	if status := p.WaitExit(t, 30*time.Second); status != 1 || !strings.Contains(p.Said(), "no etcd answers within 10s: look whether it runs there") {
		t.Errorf("with a foreign certificate it ended with %d and said:\n%s", status, p.Said())
	}
}

// A manager whose CA is not the one that the store was made with does not start.
func TestForeignCAIsRefused(t *testing.T) {
	etcd := storetest.StartEtcd(t)
	config := managertest.Config(t.TempDir())
	config.Store.Endpoints = []string{etcd.Endpoint}
	managertest.Run(t, config)
	p := managertest.NewProcess(t, t.TempDir(), "--store-endpoints="+etcd.Endpoint, "--name=other")
	p.Start(t)
	if status := p.WaitExit(t, 20*time.Second); status != 1 || !strings.Contains(p.Said(), "the store belongs to") {
		t.Errorf("it ended with %d and said:\n%s", status, p.Said())
	}
}

// secret is the only Secret of a fake API server.
type secret struct {
	mu   sync.Mutex
	data map[string][]byte
}

func (s *secret) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPatch {
		var change struct{ Data map[string][]byte }
		json.NewDecoder(r.Body).Decode(&change)
		maps.Copy(s.data, change.Data)
	}
	json.NewEncoder(w).Encode(map[string]any{"data": s.data})
}

func (s *secret) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.data[key]) > 0
}

func (s *secret) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.data)
}

// A manager in a new pod makes no CA while another manager's has the store, though its Secret is empty: it would be in the way of the right
// one.
func TestEmptiedSecretGetsNoOtherCA(t *testing.T) {
	etcd, shared := storetest.StartEtcd(t), &secret{data: make(map[string][]byte)}
	askAt(t, shared.ServeHTTP)
	config := managertest.Config(t.TempDir())
	config.Store.Endpoints, config.Kubernetes.CASecret = []string{etcd.Endpoint}, "ca"
	first := managertest.Run(t, config)
	if !shared.has("ca.key") {
		t.Fatal("the CA is not shared")
	}
	first.Stop(t)
	shared.empty()
	err := started(t, config.Store.Endpoints)
	if err == nil || !strings.Contains(err.Error(), "Secret ca is empty") || !strings.Contains(err.Error(), "the store belongs to the CA") || shared.has("ca.key") {
		t.Errorf("%v", err)
	}
	managertest.Run(t, config) // the manager that has the CA
}

// Another etcd, or one that has lost its data, is not taken for the CA's store: groups would be gone, and identities that were revoked would be
// let in again.
func TestAnEmptyEtcdIsNoSecondStore(t *testing.T) {
	etcd, shared := storetest.StartEtcd(t), &secret{data: make(map[string][]byte)}
	askAt(t, shared.ServeHTTP)
	config := managertest.Config(t.TempDir())
	config.Store.Endpoints, config.Kubernetes.CASecret = []string{etcd.Endpoint}, "ca"
	first := managertest.Run(t, config)
	eventually(t, 30*time.Second, "it is noted that the CA has a store", func() bool { return shared.has("store") })
	first.Stop(t)
	err := started(t, []string{storetest.StartEtcd(t).Endpoint})
	if err == nil || !strings.Contains(err.Error(), "it is empty, and Secret ca says that the CA has a store already (external)") {
		t.Errorf("beside an empty etcd: %v", err)
	}
	managertest.Run(t, config)
}

// started returns why a manager in a new pod ended beside an etcd.
func started(t *testing.T, endpoints []string) error {
	t.Helper()
	config := managertest.Config(t.TempDir())
	config.Store.Endpoints, config.Kubernetes.CASecret = endpoints, "ca"
	admin, err := daemon.ListenAdmin(config.CommonConfig.Admin)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a manager that does not end is ended, and gives no reason
	defer cancel()
	return manager.Run(ctx, daemon.Env{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Admin: admin}, config)
}
