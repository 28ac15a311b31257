package manager_test

import (
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
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
