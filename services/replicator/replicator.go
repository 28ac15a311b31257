package replicator

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/daemon"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// Run runs a replicator until ctx is done.
func Run(ctx context.Context, env daemon.Env, config *Config) error {
	managers, name, err := config.Connect(ctx, identity.Replicator, env.Log, uplink.Over(env.Network))
	if err != nil {
		return err
	}
	defer managers.Close()
	if config, err = config.here(); err != nil {
		return err
	}
	places, err := newPlaces(config)
	if err != nil {
		return err
	}
	registration, err := register(config, places)
	if err != nil {
		return err
	}
	env.Log = env.Log.With("replicator", name)
	client, err := dialAsMember(env, config)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	work := newWorker(env.Log, config, places, newMetrics(env.Metrics), client, name)
	env.Admin.Ready(func() error {
		if !work.isKnown() {
			return errors.New("no manager knows this replicator yet")
		}
		return nil
	})
	env.Log.Info("replicating", "lans", config.LANs, "sources", places.sources, "targets", places.targets, "devices", places.devices)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		work.stop()
		return nil
	})
	group.Go(func() error {
		return managers.RegisterReplicator(ctx, registration, uplink.Duty{Report: work.report, Assign: work.assign, Wake: work.wake})
	})
	return group.Wait()
}

// dialAsMember returns the client with which the replicator is a member of groups, for what session
// agents carry. It goes by the credentials that the other connection renews.
func dialAsMember(env daemon.Env, config *Config) (*sdk.Client, error) {
	settings := config.Uplink()
	settings.Renew = false
	options := []sdk.Option{sdk.WithLog(env.Log)}
	if env.Network != nil {
		options = append(options, sdk.WithDialer(env.Network))
	}
	return sdk.Dial(settings, options...)
}

// register describes the replicator to the managers.
func register(config *Config, places *places) (*replicav1.Registration, error) {
	labels, err := daemon.ParseLabels(config.Labels)
	if err != nil {
		return nil, err
	}
	registration := &replicav1.Registration{
		Node: config.Node, Labels: labels,
		Sources: places.sources, Targets: slices.Concat(places.targets, places.devices), Devices: places.devices, ProvesName: true, TakesKeys: true, ProvesSending: true,
	}
	for _, lan := range config.lans() {
		registration.Lans = append(registration.Lans, lan.name)
	}
	return registration, nil
}
