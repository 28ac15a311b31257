package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
)

// foundingFile is the name of a file that is there from when this manager has made the CA until it has founded the store.
func foundingFile(config *Config) string { return filepath.Join(config.Identity.CADir, "founding") }

// openCluster opens the store as a member of the managers' own cluster. Only the manager that has made the CA founds it: a first manager that
// has lost its volume must not begin anew beside managers that have everything.
func openCluster(ctx context.Context, env daemon.Env, config *Config, ca *identity.CA) (*store.Store, error) {
	dir := config.Store.DataDir + "-tls"
	files := identity.FilesIn(dir)
	certify := func() error {
		id := identity.ID{Role: identity.Manager, Name: config.Name}
		bundle, err := ca.IssueBundle(id, 1, config.Store.Cluster.Self, store.PeerName)
		if err != nil {
			return err
		}
		if bundle.Authorities, _, err = ca.PEM(); err != nil { // no other issuer counts there
			return err
		}
		return files.Write(bundle)
	}
	if err := certify(); err != nil {
		return nil, fmt.Errorf("certificate for the store's other members: %w", err)
	}
	go keepCertified(ctx, env, files, certify)
	founding := foundingFile(config)
	_, err := os.Stat(founding)
	cluster := config.Store.Cluster
	state, err := store.OpenCluster(ctx, config.Store.DataDir, store.Cluster{
		Self: cluster.Self, Seed: cluster.Seed, Found: err == nil && cluster.Self == cluster.First,
		CertificateFile: files.Certificate, KeyFile: files.Key, AuthorityFile: files.Authorities,
	}, env.Log)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(founding); err != nil && !os.IsNotExist(err) { // it is founded
		state.Close()
		return nil, err
	}
	return state, nil
}

// keepCertified renews the certificate in files at half of its life, until ctx is done.
func keepCertified(ctx context.Context, env daemon.Env, files *identity.Files, certify func() error) {
	isDue := func() bool {
		held, err := files.Credentials()
		return err != nil || held.RenewalDue(time.Now())
	}
	for pauseUntil(ctx, isDue) {
		if err := certify(); err != nil {
			env.Log.Warn("the certificate for the store's other members could not be renewed; trying again", "error", err)
		}
	}
}
