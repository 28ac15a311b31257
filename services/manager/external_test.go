package manager_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
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

// An etcd whose CA was renewed is spoken to again once its file has the new one, and by its address alone. While the file has nothing, what it
// had goes on.
func TestExternalEtcdWithANewCA(t *testing.T) {
	t.Parallel()
	served, own := storetest.NewCertificates(t), storetest.NewCertificates(t)
	etcd := storetest.StartSecureEtcd(t, served) // it reads its certificate at each handshake, and once whom it lets in
	copyFile(t, own.CertFile, served.CertFile)
	copyFile(t, own.KeyFile, served.KeyFile)
	copyFile(t, own.CAFile, served.CAFile)
	config := managertest.Config(t.TempDir())
	config.Store.Endpoints = []string{etcd.Endpoint}
	config.Store.CertFile, config.Store.KeyFile, config.Store.CAFile = own.CertFile, own.KeyFile, own.CAFile
	network := new(breaking)
	state, err := manager.OpenStore(t.Context(), daemon.Env{Log: slog.New(slog.DiscardHandler), Network: network}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	wantAnswer := func(when string, within time.Duration, want bool) {
		t.Helper()
		network.breakAll()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if _, err := state.Now(ctx); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	if err := os.WriteFile(own.CAFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantAnswer("the file is empty", 20*time.Second, true)
	renewed := storetest.NewCertificates(t)
	copyFile(t, served.CertFile, renewed.CertFile)
	copyFile(t, served.KeyFile, renewed.KeyFile)
	wantAnswer("the file does not have the new CA yet", 2*time.Second, false)
	copyFile(t, own.CAFile, renewed.CAFile)
	wantAnswer("the file has the new CA", 20*time.Second, true)
	copyFile(t, own.CAFile, storetest.NewCertificates(t).CAFile)
	wantAnswer("the file has a stranger's", 2*time.Second, false)
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// breaking is the machine's network, whose connections can be broken.
type breaking struct {
	net.ListenConfig
	mu    sync.Mutex
	there []net.Conn
}

func (b *breaking) Listen(network, address string) (net.Listener, error) {
	return b.ListenConfig.Listen(context.Background(), network, address)
}

func (b *breaking) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.there = append(b.there, connection)
	}
	return connection, err
}

func (b *breaking) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, connection := range b.there {
		connection.Close()
	}
	b.there = nil
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
