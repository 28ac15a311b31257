// Package agent is the session agent: a relay that splits the connections of
// deliveries, caches what goes through, and duplicates and forwards it.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/daemon"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/probe"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/agent/cache"
	"github.com/groupcast/groupcast/services/agent/relay"
)

// Run runs an agent until ctx is done.
func Run(ctx context.Context, env daemon.Env, config *Config) error {
	if err := enroll(ctx, env, config); err != nil {
		return err
	}
	managers, err := uplink.Dial(config.uplink(), env.Log, uplink.Over(env.Network))
	if err != nil {
		return err
	}
	defer managers.Close()
	id, err := managers.ID()
	if err != nil {
		return err
	}
	if id.Role != identity.Agent {
		return fmt.Errorf("credentials in %s are of %s: want an agent's", config.CredentialsDir, id)
	}
	store, err := cache.Open(config.Cache.Dir, uint64(config.Cache.Bytes))
	if err != nil {
		return err
	}
	listener, datagrams, err := listen(env, config.Data.Listen)
	if err != nil {
		return fmt.Errorf("data port (set data.listen to another address): %w", err)
	}
	registration, err := register(config, listener.Addr().String())
	if err != nil {
		listener.Close()
		if datagrams != nil {
			datagrams.Close()
		}
		return err
	}
	env.Log = env.Log.With("agent", id.Name)
	hub := relay.New(relay.Env{
		Log: env.Log, Cache: store, Security: managers.Security(), Now: managers.Clock().Now,
		Dialer: env, Metrics: relay.NewMetrics(), Datagrams: datagrams,
		Stripes: parallel.Bounds{Least: config.Data.LeastStripes, Most: config.Data.Stripes},
	})
	registerMetrics(env.Metrics, hub, store)
	prober := probe.New(env, managers.Security(), env.Log, hub.Report)

	var known atomic.Bool
	env.Admin.Ready(func() error {
		if !known.Load() {
			return errors.New("no manager knows this agent yet")
		}
		return nil
	})
	env.Log.Info("relaying", "data", listener.Addr().String(), "cache", config.Cache.Bytes.String())
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

// enroll exchanges the join token for credentials, unless there are some.
func enroll(ctx context.Context, env daemon.Env, config *Config) error {
	if config.ServiceAccountTokenFile != "" {
		return enrollPod(ctx, env, config)
	}
	_, err := identity.FilesIn(config.CredentialsDir).Credentials()
	if err == nil || config.JoinTokenFile == "" {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	token, err := os.ReadFile(config.JoinTokenFile)
	if err != nil {
		return fmt.Errorf("read join token: %w", err)
	}
	if _, err := uplink.Enroll(ctx, config.uplink(), strings.TrimSpace(string(token)), uplink.Over(env.Network)); err != nil {
		return fmt.Errorf("enroll with the token in %s: %w", filepath.Clean(config.JoinTokenFile), err)
	}
	return nil
}

// register describes the agent to the managers.
func register(config *Config, listening string) (*agentv1.Registration, error) {
	hostname, err := os.Hostname()
	if err != nil && config.Node == "" {
		return nil, fmt.Errorf("name of this machine (set node): %w", err)
	}
	addresses, err := advertised(config, listening)
	if err != nil {
		return nil, err
	}
	return &agentv1.Registration{
		Node: cmp.Or(config.Node, hostname), Zone: config.Zone, Addresses: addresses,
		Capacity: &agentv1.Capacity{CacheBytes: uint64(config.Cache.Bytes)},
	}, nil
}

// advertised returns where neighbours are told that the data port is.
func advertised(config *Config, listening string) ([]string, error) {
	if len(config.Data.Addresses) > 0 {
		return config.Data.Addresses, nil
	}
	if len(config.Data.Hosts) == 0 {
		return reachable(listening)
	}
	_, port, err := net.SplitHostPort(listening)
	if err != nil {
		return nil, fmt.Errorf("data port: %w", err)
	}
	var addresses []string
	for _, host := range config.Data.Hosts {
		addresses = append(addresses, net.JoinHostPort(host, port))
	}
	return addresses, nil
}

// reachable returns where others reach what listens at an address: everywhere stands
// for each of this machine's addresses that others can use.
func reachable(listening string) ([]string, error) {
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return nil, fmt.Errorf("data port: %w", err)
	}
	if ip := net.ParseIP(host); !ip.IsUnspecified() {
		return []string{listening}, nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine (set data.addresses): %w", err)
	}
	var addresses []string
	for _, address := range own {
		if network, is := address.(*net.IPNet); is && network.IP.IsGlobalUnicast() {
			addresses = append(addresses, net.JoinHostPort(network.IP.String(), port))
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("this machine has no address that others reach: set data.addresses")
	}
	return addresses, nil
}
