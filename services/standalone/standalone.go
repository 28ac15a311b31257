// Package standalone runs every service in one process, with everything it needs
// made by itself below one directory: the state, the CA, and an operator's
// configuration for the groupcast command.
package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/agent"
	"github.com/groupcast/groupcast/services/gatherer"
	"github.com/groupcast/groupcast/services/manager"
)

// Config is the configuration of a standalone server.
type Config struct {
	daemon.CommonConfig

	Data        string            `json:"data" usage:"directory that everything is kept under"`
	GRPC        daemon.GRPCConfig `json:"grpc"`
	TrustDomain string            `json:"trustDomain" usage:"trust domain of all identities"`
	Agents      AgentsConfig      `json:"agents"`
	Gatherer    GathererConfig    `json:"gatherer"`
}

// GathererConfig says how the server gathers.
type GathererConfig struct {
	Enabled bool `json:"enabled" usage:"whether the server has a gatherer"`

	gatherer.Settings
}

// AgentsConfig says which session agents the server has. The first is agent-a, in zone
// a, on node a; the second b; and so on.
type AgentsConfig struct {
	Count  int           `json:"count" usage:"how many session agents, each in a zone of its own: a, b and so on; at most 26"`
	Listen string        `json:"listen" usage:"address of the first agent's data port; the others take the ports after it; port 0 lets the machine choose"`
	Cache  bytesize.Size `json:"cache" usage:"how much each agent caches at most"`
}

// Defaults returns the default configuration.
func Defaults() *Config {
	of, gathers := manager.Defaults(), gatherer.Defaults().Settings
	gathers.Store.Dir, gathers.Policy.File = "", ""
	return &Config{
		CommonConfig: of.CommonConfig, Data: "groupcast-data", GRPC: of.GRPC, TrustDomain: identity.DefaultTrustDomain,
		Agents:   AgentsConfig{Count: 1, Listen: agent.Defaults().Data.Listen, Cache: agent.Defaults().Cache.Bytes},
		Gatherer: GathererConfig{Enabled: true, Settings: gathers},
	}
}

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	if c.Data == "" {
		return errors.New("data is empty: name a directory")
	}
	if c.Agents.Count < 0 || c.Agents.Count > 26 {
		return fmt.Errorf("agents.count is %d: want 0 to 26", c.Agents.Count)
	}
	problems := []error{c.manager().Validate()}
	for i := range c.Agents.Count {
		of, err := c.agent(i, "127.0.0.1:7400")
		if err == nil {
			err = of.Validate()
		}
		problems = append(problems, err)
	}
	if c.Gatherer.Enabled {
		if err := c.gatherer("127.0.0.1:7400").Validate(); err != nil {
			problems = append(problems, fmt.Errorf("gatherer: %w", err))
		}
	}
	return errors.Join(problems...)
}

// adminFile is the operator's configuration, below the data directory.
const adminFile = "admin.yaml"

func (c *Config) manager() *manager.Config {
	of := manager.Defaults()
	of.CommonConfig, of.Name, of.GRPC = c.CommonConfig, "standalone", c.GRPC
	of.Store.DataDir = filepath.Join(c.Data, "store")
	of.Identity = manager.IdentityConfig{TrustDomain: c.TrustDomain, CADir: filepath.Join(c.Data, "ca")}
	of.Admin.File = filepath.Join(c.Data, adminFile)
	return of
}

// agent returns the configuration of the i-th agent.
func (c *Config) agent(i int, managers string) (*agent.Config, error) {
	host, port, err := net.SplitHostPort(c.Agents.Listen)
	if err != nil {
		return nil, fmt.Errorf("agents.listen is %q: want host:port, as in 127.0.0.1:7410", c.Agents.Listen)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("agents.listen is %q: want a number for the port", c.Agents.Listen)
	}
	if number != 0 {
		number += i
	}
	of := agent.Defaults()
	letter := string(rune('a' + i))
	dir := filepath.Join(c.Data, agentName(i))
	of.CommonConfig, of.Managers, of.TrustDomain = c.CommonConfig, []string{managers}, c.TrustDomain
	of.Node, of.Zone = letter, letter
	of.CredentialsDir, of.Cache.Dir, of.Cache.Bytes = filepath.Join(dir, "credentials"), filepath.Join(dir, "cache"), c.Agents.Cache
	of.Data.Listen = net.JoinHostPort(host, strconv.Itoa(number))
	return of, nil
}

// gatherer returns the configuration of the gatherer.
func (c *Config) gatherer(managers string) *gatherer.Config {
	of := gatherer.Defaults()
	dir := filepath.Join(c.Data, gathererName)
	of.CommonConfig, of.Managers, of.TrustDomain = c.CommonConfig, []string{managers}, c.TrustDomain
	of.CredentialsDir, of.Settings = filepath.Join(dir, "credentials"), c.Gatherer.Settings
	of.Store.Dir = cmp.Or(of.Store.Dir, filepath.Join(dir, "gathered"))
	of.Policy.File = cmp.Or(of.Policy.File, filepath.Join(dir, "policy.yaml"))
	return of
}

const gathererName = "gatherer"

func agentName(i int) string { return "agent-" + string(rune('a'+i)) }

// Run runs all services until ctx is done. When all of them serve, it says so on
// standard output.
func Run(ctx context.Context, env daemon.Env, config *Config) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return manager.Run(ctx, env, config.manager()) })
	group.Go(func() error {
		if !awaitReady(ctx, env.Admin) {
			return nil
		}
		for i := range config.Agents.Count {
			if err := config.startAgent(ctx, env, group, i); err != nil {
				return fmt.Errorf("%s: %w", agentName(i), err)
			}
		}
		if config.Gatherer.Enabled {
			if err := config.startGatherer(ctx, env, group); err != nil {
				return fmt.Errorf("%s: %w", gathererName, err)
			}
		}
		if !awaitReady(ctx, env.Admin) {
			return nil
		}
		_, err := fmt.Fprintf(env.Stdout, "ready: %s\n", filepath.Join(config.Data, adminFile))
		return err
	})
	return group.Wait()
}

// readyPoll is how often it is looked whether all serves.
const readyPoll = 10 * time.Millisecond

// awaitReady waits until all that runs is ready.
func awaitReady(ctx context.Context, admin *daemon.Admin) bool {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for admin.IsReady() != nil {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// startAgent runs an agent, with an identity that the manager gives it as it would to
// one elsewhere.
func (c *Config) startAgent(ctx context.Context, env daemon.Env, group *errgroup.Group, i int) error {
	access, err := uplink.ReadConfig(filepath.Join(c.Data, adminFile))
	if err != nil {
		return err
	}
	of, err := c.agent(i, access.Endpoints[0])
	if err != nil {
		return err
	}
	as := uplink.Config{Endpoints: of.Managers, TrustDomain: of.TrustDomain, CredentialsDir: of.CredentialsDir}
	if err := enroll(ctx, access, as, identity.ID{Role: identity.Agent, Name: agentName(i)}); err != nil {
		return err
	}
	env, err = awaited(env)
	if err != nil {
		return err
	}
	env.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"agent": agentName(i)}, env.Metrics)
	group.Go(func() error {
		if err := agent.Run(ctx, env, of); err != nil {
			return fmt.Errorf("%s (see --agents-count and --agents-listen): %w", agentName(i), err)
		}
		return nil
	})
	return nil
}

// startGatherer runs the gatherer, likewise.
func (c *Config) startGatherer(ctx context.Context, env daemon.Env, group *errgroup.Group) error {
	access, err := uplink.ReadConfig(filepath.Join(c.Data, adminFile))
	if err != nil {
		return err
	}
	of := c.gatherer(access.Endpoints[0])
	as := uplink.Config{Endpoints: of.Managers, TrustDomain: of.TrustDomain, CredentialsDir: of.CredentialsDir}
	if err := enroll(ctx, access, as, identity.ID{Role: identity.Gatherer, Name: gathererName}); err != nil {
		return err
	}
	env, err = awaited(env)
	if err != nil {
		return err
	}
	group.Go(func() error {
		if err := gatherer.Run(ctx, env, of); err != nil {
			return fmt.Errorf("%s (see --gatherer-grpc-listen and --gatherer-data-listen): %w", gathererName, err)
		}
		return nil
	})
	return nil
}

// awaited returns the environment of a service that the server is not ready before.
func awaited(env daemon.Env) (daemon.Env, error) {
	own, err := daemon.ListenAdmin(daemon.AdminConfig{})
	if err != nil {
		return env, err
	}
	env.Admin.Ready(own.IsReady)
	env.Admin = own
	return env, nil
}

// enroll gives a service a fresh identity.
func enroll(ctx context.Context, access, as uplink.Config, id identity.ID) error {
	operator, err := uplink.Dial(access, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer operator.Close()
	token, err := groupv1.NewIdentityServiceClient(operator).CreateToken(ctx, &groupv1.CreateTokenRequest{Role: string(id.Role), Name: id.Name})
	if err != nil {
		return fmt.Errorf("make a join token: %w", err)
	}
	_, err = uplink.Enroll(ctx, as, token.GetToken())
	return err
}
