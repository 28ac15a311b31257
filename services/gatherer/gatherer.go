// Package gatherer is the gathering server: clients upload to it, and its controller gives each client what the policy says, by
// the windows that it shows to the client's connections and by how many of these it asks for.
package gatherer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/filelock"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/gatherer/api"
	"github.com/groupcast/groupcast/services/gatherer/controller"
	"github.com/groupcast/groupcast/services/gatherer/grant"
	"github.com/groupcast/groupcast/services/gatherer/revocation"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// Run runs a gatherer until ctx is done.
func Run(ctx context.Context, env daemon.Env, config *Config) error {
	managers, name, err := config.Connect(ctx, identity.Gatherer, env.Log, uplink.Over(env.Network))
	if err != nil {
		return err
	}
	defer managers.Close()
	env.Log = env.Log.With("gatherer", name)
	revocations, grants := revocation.New(time.Now), &grant.List{}
	metrics := newMetrics(env.Metrics)
	unlock, err := takeStore(env.Log, config)
	if err != nil {
		return err
	}
	defer unlock()
	clients, err := openRoster(env, config, revocations, grants, metrics)
	if err != nil {
		return err
	}
	control, err := controller.New(config.Controller, window.Options{Interval: config.CheckInterval.Std()}, clients, newNeighbours(config.Data.Interface).rate)
	if err != nil {
		return err
	}
	listener, err := env.Listen("tcp", config.Data.Listen)
	if err != nil {
		return fmt.Errorf("data port (set data.listen to another address): %w", err)
	}
	defer listener.Close()
	server := &api.Server{
		Name: name, TrustDomain: config.TrustDomain, Roster: clients, Policy: clients.Policy, Controller: control,
		Revocations: revocations, Plaintext: config.Data.Plaintext,
	}
	port, err := serveAPI(env, config, managers.Security(), server, listener.Addr().String())
	if err != nil {
		return err
	}
	door := &link.Door{Security: managers.Security(), Log: env.Log, Serve: clients.Serve, Refused: metrics.turnAway}
	first := &firstWindow{listener: listener}
	first.set(control.First())

	env.Admin.Ready(func() error {
		select {
		case <-revocations.Known():
			return nil
		default:
			return revocation.ErrUnsure
		}
	})
	if !link.HoldsWindows() {
		env.Log.Warn("the kernel enlarges windows as it likes: targets are met less well; Linux 5.15 or newer keeps to them")
	}
	env.Log.Info("gathering", "grpc", port.Addr(), "data", listener.Addr().String(), "dir", config.Store.Dir, "controller", config.Controller)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return port.Serve(ctx, config.StopWait.Std()) })
	group.Go(func() error {
		defer door.Wait()
		return door.Run(ctx, listener)
	})
	group.Go(func() error { return register(ctx, config, managers, port.Addr(), control, clients) })
	group.Go(func() error { return clients.Run(ctx) })
	group.Go(func() error { return revocations.Run(ctx, managers, clients.Expel) })
	group.Go(func() error { return grants.Run(ctx, managers) })
	group.Go(func() error { return clients.Retain(ctx) })
	group.Go(func() error {
		return control.Run(ctx, func(round controller.Round) {
			first.set(round.First)
			metrics.note(round, clients.Clients())
		})
	})
	return group.Wait()
}

// register has the managers know where this gatherer is, and how, until ctx is done.
func register(ctx context.Context, config *Config, managers *uplink.Uplink, at string, control *controller.Controller, clients *roster.Roster) error {
	addresses, err := daemon.Reachable(at, config.Addresses, config.Data.Hosts)
	if err != nil {
		return err
	}
	labels, err := daemon.ParseLabels(config.Labels)
	if err != nil {
		return err
	}
	registration := &gatherv1.GathererRegistration{Addresses: addresses, Labels: labels}
	return managers.RegisterGatherer(ctx, registration, func() *gatherv1.GathererReport {
		round, _ := control.Last()
		return &gatherv1.GathererReport{Clients: uint32(clients.Attached()), ReceivedBytesPerSecond: uint64(round.Received)}
	})
}

// takeStore makes the directory that clients upload into, and locks it: two processes would append to the same streams.
func takeStore(log *slog.Logger, config *Config) (unlock func(), err error) {
	for _, dir := range []string{config.Store.Dir, filepath.Dir(config.Policy.File)} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	dir, err := os.Open(config.Store.Dir)
	if err != nil {
		return nil, err
	}
	switch err := filelock.Take(dir); {
	case errors.Is(err, filelock.ErrHeld):
		dir.Close()
		return nil, fmt.Errorf("store.dir %s is in use by another process: stop it, or name another directory", config.Store.Dir)
	case err != nil:
		log.Warn("the store cannot be locked here: let no other gatherer use it", "dir", config.Store.Dir, "error", err)
	}
	return func() { _ = filelock.Release(dir) }, nil
}

// openRoster reads the policy, and what clients have uploaded.
func openRoster(env daemon.Env, config *Config, revocations *revocation.List, grants *grant.List, metrics *metrics) (*roster.Roster, error) {
	before, err := config.first()
	if err != nil {
		return nil, fmt.Errorf("policy.first: %w", err)
	}
	agreed, err := roster.OpenPolicy(env.Log, config.Policy.File, before)
	if err != nil {
		return nil, err
	}
	return roster.New(roster.Env{
		Log: env.Log, Dir: config.Store.Dir, Policy: agreed, Grace: config.Store.Grace.Std(),
		Reserve: uint64(config.Store.Reserve), Revoked: revocations.Revoked, Admit: revocations.Admit, Groups: grants.Of, Memory: windowMemory(uint64(config.Data.Memory), os.DirFS("/")), Finished: metrics.finished, Established: metrics.establish,
		Exec: config.Exec, ExecTime: config.ExecTime.Std(),
		Retention: sink.Retention{Age: config.Store.KeepFor.Std(), Bytes: uint64(config.Store.KeepBytes)},
	})
}

// serveAPI takes the gRPC port.
func serveAPI(env daemon.Env, config *Config, security identity.TLS, server *api.Server, data string) (*daemon.GRPC, error) {
	addresses, err := daemon.Reachable(data, config.Data.Addresses, config.Data.Hosts)
	if err != nil {
		return nil, err
	}
	server.Addresses, server.Security = addresses, security
	port, err := daemon.ListenGRPC(env, config.GRPC, security, server.Guards())
	if err != nil {
		return nil, err
	}
	gatherv1.RegisterGatherServiceServer(port, server)
	return port, nil
}

// firstWindow is the window of connections that are accepted. They take it over from the listening socket.
type firstWindow struct {
	listener net.Listener
	bytes    int
}

// set bounds the window of connections to come, if the bound is new. If it cannot be set, connections have too large a window until
// the controller's next round.
func (f *firstWindow) set(bytes int) {
	if bytes == 0 && f.bytes != 0 {
		bytes = link.Unbounded
	}
	if bytes == f.bytes {
		return
	}
	if err := link.SetFirstWindow(f.listener, bytes); err == nil || errors.Is(err, errors.ErrUnsupported) {
		f.bytes = bytes
	}
}
