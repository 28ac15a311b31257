package managertest

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// Cluster is several managers, each a process, on one external etcd.
type Cluster struct {
	Etcd     *storetest.Etcd
	Managers []*Process
}

// StartCluster starts managers that end with the test. Args are added to the command line of each.
func StartCluster(t testing.TB, size int, args ...string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	c := &Cluster{Etcd: storetest.StartEtcd(t)}
	for i := range size {
		p := NewProcess(t, filepath.Join(dir, fmt.Sprintf("manager-%d", i)), append([]string{
			fmt.Sprintf("--name=manager-%d", i), "--store-endpoints=" + c.Etcd.Endpoint,
			"--identity-ca-dir=" + filepath.Join(dir, "ca"),
		}, args...)...)
		p.Start(t)
		p.WaitServing(t) // the first one makes the CA that all share
		c.Managers = append(c.Managers, p)
	}
	return c
}

// Config returns an operator's configuration that knows all managers.
func (c *Cluster) Config() sdk.Config {
	config := sdk.Config{TrustDomain: sdk.DefaultTrustDomain, CredentialsDir: filepath.Join(c.Managers[0].Dir, "admin")}
	for _, p := range c.Managers {
		config.Endpoints = append(config.Endpoints, p.Address)
	}
	return config
}

// Client returns a client that knows all managers. It is closed with the test.
func (c *Cluster) Client(t testing.TB) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Uplink returns a connection that knows all managers. It is closed with the test.
func (c *Cluster) Uplink(t testing.TB) *uplink.Uplink {
	t.Helper()
	return Dial(t, c.Config())
}

// Dial returns a connection. It is closed with the test.
func Dial(t testing.TB, config sdk.Config) *uplink.Uplink {
	t.Helper()
	connection, err := uplink.Dial(config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// Leader returns the manager that leads, once it is one of those that the test knows to run.
func (c *Cluster) Leader(t testing.TB, among ...*Process) *Process {
	t.Helper()
	if len(among) == 0 {
		among = c.Managers
	}
	deadline := time.After(20 * time.Second)
	for {
		for _, asked := range among {
			if p := c.leaderSeenBy(t, asked); p != nil {
				for _, candidate := range among {
					if candidate == p {
						return p
					}
				}
			}
		}
		select {
		case <-deadline:
			t.Fatal("no manager leads")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Follower returns a manager that is not the leader.
func (c *Cluster) Follower(leader *Process) *Process {
	for _, candidate := range c.Managers {
		if candidate != leader {
			return candidate
		}
	}
	return nil
}

func (c *Cluster) leaderSeenBy(t testing.TB, asked *Process) *Process {
	t.Helper()
	config := c.Config()
	config.Endpoints = []string{asked.Address}
	client, err := sdk.Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	status, err := client.Status(ctx)
	if err != nil {
		return nil
	}
	for i, p := range c.Managers {
		if status.Leader == fmt.Sprintf("manager-%d", i) {
			return p
		}
	}
	return nil
}

// ReadConfig reads a configuration file.
func ReadConfig(access string) (sdk.Config, error) { return uplink.ReadConfig(access) }

// Reason returns the reason in an error of the API.
func Reason(err error) string { return uplink.Reason(err) }
