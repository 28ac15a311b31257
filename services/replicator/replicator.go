package replicator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

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
	here, err := config.here()
	if err != nil {
		return err
	}
	places, err := newPlaces(config)
	if err != nil {
		return err
	}
	registration, err := register(here, places)
	if err != nil {
		return err
	}
	env.Log = env.Log.With("replicator", name)
	client, err := dialAsMember(env, config)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	work := newWorker(env.Log, config.at(here.Node), places, newMetrics(env.Metrics), client, name)
	env.Admin.Ready(func() error {
		if !work.isKnown() {
			return errors.New("no manager knows this replicator yet")
		}
		return nil
	})
	if out := config.leftOut(here); len(out) > 0 {
		env.Log.Warn("this machine has no address of some LANs, and is not on them until it has", "lans", out)
	}
	env.Log.Info("replicating", "lans", here.LANs, "sources", places.sources, "targets", places.targets, "devices", places.devices)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		work.stop()
		return nil
	})
	group.Go(func() error {
		return attend(ctx, env.Log, config, here, func(ctx context.Context, lans []string) error {
			registration.Lans = lans
			return managers.RegisterReplicator(ctx, registration, uplink.Duty{Report: work.report, Assign: work.assign, Wake: work.wake})
		})
	})
	return group.Wait()
}

// lookEvery is how often it is looked on which LANs a machine is.
const lookEvery = 10 * time.Second

// attend registers, and anew with the LANs that this machine is on once those are others. What it does goes on meanwhile.
func attend(ctx context.Context, log *slog.Logger, config, here *Config, register func(ctx context.Context, lans []string) error) error {
	for {
		inner, end := context.WithCancelCause(ctx)
		var looking sync.WaitGroup
		now := here
		looking.Go(func() {
			if now = config.moved(inner, log, here); now != here {
				end(uplink.ErrAnew)
			}
		})
		err := register(inner, here.names())
		end(nil)
		looking.Wait()
		if ctx.Err() != nil || now == here || err != nil {
			return err
		}
		log.Info("this machine is on other LANs now", "lans", now.LANs, "before", here.LANs)
		here = now
	}
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
		Node: config.Node, Labels: labels, Lans: config.names(),
		Sources: places.sources, Targets: slices.Concat(places.targets, places.devices), Devices: places.devices, ProvesName: true, TakesKeys: true, ProvesSending: true,
	}
	return registration, nil
}
