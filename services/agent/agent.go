// Package agent is the session agent: a relay that splits the connections of
// deliveries, caches what goes through, and duplicates and forwards it.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/linkspeed"
	"github.com/groupcast/groupcast/internal/probe"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/agent/cache"
	"github.com/groupcast/groupcast/services/agent/relay"
)

// openCache opens the cache, with less than configured if its disk has less room.
func openCache(env daemon.Env, config CacheConfig) (*cache.Cache, error) {
	store, err := cache.Open(config.Dir, uint64(config.Bytes), cache.Disk{Keep: uint64(config.Reserve), Sharers: config.Sharers})
	if err != nil {
		return nil, err
	}
	given, has := config.Bytes, bytesize.Size(store.Limit())
	switch {
	case has < min(given, LeastCache):
		return nil, fmt.Errorf("open cache: the disk of %s has no room for it beside %v that are kept free (cache.reserve): free some, or name another directory (cache.dir)", config.Dir, config.Reserve)
	case has < given:
		env.Log.Warn("the disk has less room than the cache was given: it takes what there is, and leaves others their part", "dir", config.Dir, "given", given.String(), "cache", has.String(), "reserve", config.Reserve.String())
	}
	return store, nil
}

// Run runs an agent until ctx is done.
func Run(ctx context.Context, env daemon.Env, config *Config) error {
	managers, name, err := config.Connect(ctx, identity.Agent, env.Log, uplink.Over(env.Network))
	if err != nil {
		return err
	}
	defer managers.Close()
	store, err := openCache(env, config.Cache)
	if err != nil {
		return err
	}
	listener, datagrams, err := listen(env, config.Data.Listen)
	if err != nil {
		return fmt.Errorf("data port (set data.listen to another address): %w", err)
	}
	registration, err := registrationOf(config, store.Limit(), listener.Addr().String())
	if err != nil {
		listener.Close()
		if datagrams != nil {
			datagrams.Close()
		}
		return err
	}
	env.Log = env.Log.With("agent", name)
	contacts := link.NewContacts(env, managers.Security(), link.AgentsKeep)
	hub := relay.New(relay.Env{
		Log: env.Log, Cache: store, Security: managers.Security(), Now: managers.Clock().Now,
		Contacts: contacts, Metrics: relay.NewMetrics(), Datagrams: datagrams, Kept: keptMost(),
		Stripes: parallel.Bounds{Least: config.Data.LeastStripes, Most: config.Data.Stripes},
	})
	registerMetrics(env.Metrics, hub, store)
	prober := probe.New(env, contacts, env.Log, hub.Report)

	var known atomic.Bool
	env.Admin.Ready(func() error {
		if !known.Load() {
			return errors.New("no manager knows this agent yet")
		}
		return nil
	})
	env.Log.Info("relaying", "data", listener.Addr().String(), "cache", bytesize.Size(store.Limit()).String())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return hub.Run(ctx, listener) })
	group.Go(func() error { return prober.Run(ctx) })
	group.Go(func() error {
		return managers.Register(ctx, registration,
			func() *agentv1.Report {
				load := hub.Load()
				return &agentv1.Report{CacheUsedBytes: load.CacheBytes, Connections: uint32(load.Links)}
			},
			&uplink.Attendance{
				Reports: hub.Reports,
				Assign: func(assignments *groupv1.Assignments) {
					known.Store(true)
					hub.Assign(assignments)
				},
				Wake:    hub.Wake(),
				Measure: prober.Measure, RoundTrips: prober.RoundTrips,
			})
	})
	return group.Wait()
}

// keptMost returns in how many files ended deliveries may be kept: half of those that may be open.
func keptMost() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	return int(min(limit.Cur/2, math.MaxInt))
}

// registrationOf returns how the agent describes itself to the managers.
func registrationOf(config *Config, cacheBytes uint64, listening string) (*agentv1.Registration, error) {
	hostname, err := os.Hostname()
	if err != nil && config.Node == "" {
		return nil, fmt.Errorf("name of this machine (set node): %w", err)
	}
	addresses, err := daemon.Reachable(listening, config.Data.Addresses, config.Data.Hosts)
	if err != nil {
		return nil, err
	}
	return &agentv1.Registration{
		Node: cmp.Or(config.Node, hostname), Zone: config.Zone, Addresses: addresses,
		Capacity: &agentv1.Capacity{
			CacheBytes: cacheBytes, UplinkBytesPerSecond: cmp.Or(uint64(config.Data.Uplink), linkSpeed(linkspeed.Interfaces, addresses)),
		},
	}, nil
}
