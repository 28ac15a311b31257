// Package managertest runs managers for tests: in the test's own process, or as
// processes that can be killed and frozen.
package managertest

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager"
)

// startTimeout is how long a manager may take to be ready.
const startTimeout = 30 * time.Second

// Manager is a manager in the test's process.
type Manager struct {
	// Access is the configuration file of an operator.
	Access string
	// Address is the gRPC port.
	Address string
	Config  *manager.Config
	Metrics *prometheus.Registry

	stop   func() error
	output *testprocess.Output
}

// Config returns the configuration of a manager that keeps everything below a
// directory and takes free ports.
func Config(dir string) *manager.Config {
	config := manager.Defaults()
	config.CommonConfig.Admin.Listen = ""
	config.GRPC.Listen = "127.0.0.1:0"
	config.Store.DataDir = filepath.Join(dir, "store")
	config.Identity.CADir = filepath.Join(dir, "ca")
	config.Admin.File = filepath.Join(dir, "admin.yaml")
	config.StopWait = daemon.Duration(time.Second)
	return config
}

// Start starts a manager on its own below a fresh directory. It ends with the test.
func Start(t testing.TB) *Manager {
	t.Helper()
	return Run(t, Config(t.TempDir()))
}

// Run starts a manager. It ends with the test, or with Stop.
func Run(t testing.TB, config *manager.Config) *Manager {
	t.Helper()
	admin, err := daemon.ListenAdmin(config.CommonConfig.Admin)
	if err != nil {
		t.Fatal(err)
	}
	output := new(testprocess.Output)
	log := slog.New(slog.NewTextHandler(testWriter{output}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	metrics := prometheus.NewRegistry()
	env := daemon.Env{Log: log, Metrics: metrics, Admin: admin, Stdout: io.Discard}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx, env, config) }()
	m := &Manager{Access: config.Admin.File, Config: config, Metrics: metrics, output: output}
	var stopped bool
	m.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := m.stop(); err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
	deadline := time.After(startTimeout)
	for admin.IsReady() != nil {
		select {
		case err := <-ended:
			stopped = true
			t.Fatalf("the manager did not start: %v", err)
		case <-deadline:
			t.Fatalf("the manager is not ready: %v", admin.IsReady())
		case <-time.After(5 * time.Millisecond):
		}
	}
	access, err := uplink.ReadConfig(m.Access)
	if err != nil {
		t.Fatal(err)
	}
	m.Address = access.Endpoints[0]
	return m
}

// Stop stops the manager in order.
func (m *Manager) Stop(t testing.TB) {
	t.Helper()
	if err := m.stop(); err != nil {
		t.Fatalf("the manager ended with: %v", err)
	}
}

// Said returns what the manager has logged so far.
func (m *Manager) Said() string { return m.output.String() }

// Client returns a client with an operator's identity. It is closed with the test.
func (m *Manager) Client(t testing.TB) *sdk.Client {
	t.Helper()
	return Client(t, m.Access)
}

// Client returns a client with the identity of a configuration file. It is closed with the test.
func Client(t testing.TB, access string) *sdk.Client {
	t.Helper()
	client, err := sdk.Open(access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Enroll gives an identity to whomever the token is for, and returns the configuration that uses it.
func (m *Manager) Enroll(t testing.TB, token sdk.Token) sdk.Config {
	t.Helper()
	text, _, err := m.Client(t).CreateToken(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	config := sdk.Config{
		Endpoints: []string{m.Address}, TrustDomain: m.Config.Identity.TrustDomain,
		CredentialsDir: filepath.Join(t.TempDir(), "credentials"), Renew: true,
	}
	if _, err := sdk.Enroll(t.Context(), config, text); err != nil {
		t.Fatal(err)
	}
	return config
}

// testWriter keeps log lines, and shows them where a test is looked into.
type testWriter struct{ output *testprocess.Output }

func (w testWriter) Write(line []byte) (int, error) {
	if os.Getenv("GROUPCAST_TEST_LOG") != "" { // a manager may log after its test has ended
		os.Stderr.Write(line)
	}
	return w.output.Write(line)
}
