// Package storetest runs the external half of what the store is tested against:
// real etcd processes, built from etcd's Go module.
package storetest

import (
	"context"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// Etcd is an etcd process of its own, on loopback.
type Etcd struct {
	Endpoint string
	process  *exec.Cmd
	output   testprocess.Output
}

// StartEtcd starts an etcd that ends with the test. It speaks plain TCP.
func StartEtcd(t testing.TB) *Etcd { return startEtcd(t, "http") }

// StartSecureEtcd starts an etcd that speaks TLS and asks clients for a
// certificate: see NewCertificates.
func StartSecureEtcd(t testing.TB, c Certificates) *Etcd {
	return startEtcd(t, "https", "--cert-file="+c.CertFile, "--key-file="+c.KeyFile, "--trusted-ca-file="+c.CAFile, "--client-cert-auth")
}

func startEtcd(t testing.TB, scheme string, args ...string) *Etcd {
	t.Helper()
	client, peer := testprocess.FreeAddress(t), testprocess.FreeAddress(t)
	e := &Etcd{Endpoint: scheme + "://" + client}
	e.process = exec.Command(testprocess.Binary(t, "go.etcd.io/etcd/server/v3"), append(args,
		"--name=test", "--data-dir="+t.TempDir(), "--log-level=error",
		"--listen-client-urls="+e.Endpoint, "--advertise-client-urls="+e.Endpoint,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer,
		"--initial-cluster=test=http://"+peer, "--heartbeat-interval=10", "--election-timeout=100")...)
	e.process.Stdout, e.process.Stderr = &e.output, &e.output
	e.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.process.Start(); err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(func() {
		e.process.Process.Kill()
		e.process.Wait()
		if t.Failed() {
			t.Logf("etcd said:\n%s", e.output.String())
		}
	})
	waitDial(t, client)
	return e
}

// waitDial waits until the address accepts connections.
func waitDial(t testing.TB, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			connection.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("etcd does not accept connections at %s: %v", address, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Freeze has etcd hang, until Thaw is called.
func (e *Etcd) Freeze(t testing.TB) { testprocess.Freeze(t, e.process.Process) }

// Thaw lets it go on.
func (e *Etcd) Thaw(t testing.TB) { testprocess.Thaw(t, e.process.Process) }

// Compact forgets all history before now.
func (e *Etcd) Compact(t testing.TB) {
	t.Helper()
	e.call(t, func(ctx context.Context, client *clientv3.Client) error {
		now, err := client.Get(ctx, "/")
		if err == nil {
			_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
		}
		return err
	})
}

// Fill has etcd refuse all that needs room, until Empty is called.
func (e *Etcd) Fill(t testing.TB) { e.alarm(t, etcdserverpb.AlarmRequest_ACTIVATE) }

// Empty ends Fill.
func (e *Etcd) Empty(t testing.TB) { e.alarm(t, etcdserverpb.AlarmRequest_DEACTIVATE) }

func (e *Etcd) alarm(t testing.TB, action etcdserverpb.AlarmRequest_AlarmAction) {
	t.Helper()
	e.call(t, func(ctx context.Context, client *clientv3.Client) error {
		alarm := &etcdserverpb.AlarmRequest{Action: action, Alarm: etcdserverpb.AlarmType_NOSPACE}
		_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, alarm)
		return err
	})
}

func (e *Etcd) call(t testing.TB, ask func(context.Context, *clientv3.Client) error) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := ask(ctx, client); err != nil {
		t.Fatal(err)
	}
}
