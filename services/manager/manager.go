// Package manager is the group and session manager: it keeps groups, their
// members and policies, the agents, deliveries and identities, and serves them over gRPC.
// Several managers can share one store; one of them leads.
package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/version"
	"github.com/groupcast/groupcast/services/manager/api"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Run runs a manager until ctx is done.
func Run(ctx context.Context, env daemon.Env, config *Config) error {
	leads := registerLeading(env.Metrics)
	inCluster, err := newPod(config)
	if err != nil {
		return err
	}
	members, err := config.Kubernetes.members()
	if err != nil {
		return err
	}
	ca, err := inCluster.openCA(ctx, env, config)
	if err != nil {
		return err
	}
	warnExposed(env.Log, config)
	own, err := ownCredentials(config, ca, env.Log)
	if err != nil {
		return err
	}
	state, err := openStore(ctx, env, config, ca)
	if err != nil {
		return err
	}
	defer state.Close()

	mayClaim := func() error { return inCluster.mayClaim(ctx, env) }
	if err := state.Belongs(ctx, ca.Fingerprint().String(), mayClaim); err != nil {
		return fmt.Errorf("CA in %s: %w", config.Identity.CADir, err)
	}
	security := identity.TLS{TrustDomain: config.Identity.TrustDomain, Source: own}

	places, err := replication.ParsePlaces(config.Replication.Groups, config.Replication.Ports)
	if err != nil {
		return err
	}
	shown := view.New(state, env.Log)
	leading := &leadership{
		store: state, view: shown, security: security.Client(identity.Manager), signer: own,
		metrics: delivery.NewMetrics(env.Metrics), surveyed: survey.NewMetrics(env.Metrics), replicated: replication.NewMetrics(env.Metrics),
		places: places, network: env.Network, accounts: members, log: env.Log,
	}
	leads.Store(leading)
	server := &api.Server{
		Name: config.Name, TrustDomain: config.Identity.TrustDomain,
		View: shown, Leading: leading, CA: ca, Started: time.Now(), WriteRefusal: state.WriteRefusal,
		Security: security, ServiceAccounts: inCluster.reviewer(),
	}
	port, err := daemon.ListenGRPC(env, config.GRPC, security, server.Guards(env.Metrics))
	if err != nil {
		return err
	}
	server.Register(port)
	leading.self = store.Candidate{
		Name: config.Name, Address: config.announced(port.Addr()), Version: version.String(), Started: server.Started.Unix(), Member: state.Member(),
	}
	server.Address = leading.self.Address
	if err := leading.replaceEarlier(ctx); err != nil {
		return err
	}
	registerMetrics(env.Metrics, shown, leading, state, server, own)

	group, ctx := errgroup.WithContext(ctx)
	loaded := make(chan struct{})
	var accessible atomic.Bool
	// Who waits for this manager to have begun, as systemd does, goes on at once with the operator's configuration.
	begin := sync.OnceFunc(func() { env.Admin.Ready(func() error { return ready(leading, shown, accessible.Load()) }) })
	group.Go(func() error { return shown.Run(ctx, func() { close(loaded) }) })
	group.Go(func() error { return watchFailure(ctx, state) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-loaded:
		}
		group.Go(func() error { return leading.Run(ctx) })
		group.Go(func() error {
			return keepAccess(ctx, env, config, ca, shown, port.Addr(), func(err error) {
				if err == nil {
					accessible.Store(true)
				}
				begin()
			})
		})
		group.Go(func() error { return inCluster.publish(ctx, env, ca, shown, leading) })
		group.Go(func() error { return inCluster.share(ctx, env) })
		env.Log.Info("serving", "grpc", port.Addr())
		return port.Serve(ctx, config.StopWait.Std())
	})
	if err := group.Wait(); err != nil {
		return err // it did not mean to stop, and is to be missed
	}
	leading.goodbye(ctx)
	return nil
}

func openStore(ctx context.Context, env daemon.Env, config *Config, ca *identity.CA) (*store.Store, error) {
	if config.Store.Cluster.Self != "" {
		return openCluster(ctx, env, config, ca)
	}
	if len(config.Store.Endpoints) == 0 {
		return store.OpenEmbedded(config.Store.DataDir, env.Log)
	}
	return openExternal(ctx, env, &config.Store)
}

// warnExposed logs which private keys others on this machine can read.
func warnExposed(log *slog.Logger, config *Config) {
	keys := []string{filepath.Join(config.Identity.CADir, identity.CAKeyFile), config.Store.KeyFile}
	if dir := config.Identity.TLSDir; dir != "" {
		keys = append(keys, identity.FilesIn(dir).Key)
	}
	for _, key := range keys {
		if identity.Exposed(key) {
			log.Warn("every user of this machine can read a private key: chmod 600 it", "file", key)
		}
	}
}

// watchFailure ends the manager when its store cannot go on.
func watchFailure(ctx context.Context, state *store.Store) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-state.Failed():
		return fmt.Errorf("the store cannot go on: %w", err)
	}
}

// ready says why this manager cannot do its work.
func ready(leading *leadership, shown *view.View, isAccessible bool) error {
	if !isAccessible {
		return errors.New("the operator's configuration was not written yet")
	}
	if shown.Revision() == 0 {
		return errors.New("the state was not read yet")
	}
	if leading.Leader().Name == "" {
		return errors.New("no manager leads")
	}
	return nil
}

// reachable turns a listening address into one that can be dialled from this machine.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
