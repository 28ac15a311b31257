// Package standalone runs every service in one process, with everything it needs
// made by itself below one directory: the state, the CA, and an operator's
// configuration for the groupcast command.
package standalone

import (
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
	"github.com/groupcast/groupcast/services/manager"
)

// Config is the configuration of a standalone server.
type Config struct {
	daemon.CommonConfig

	Data        string            `json:"data" usage:"directory that everything is kept under"`
	GRPC        daemon.GRPCConfig `json:"grpc"`
	TrustDomain string            `json:"trustDomain" usage:"trust domain of all identities"`
	Agents      AgentsConfig      `json:"agents"`
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
	of := manager.Defaults()
	return &Config{
		CommonConfig: of.CommonConfig, Data: "groupcast-data", GRPC: of.GRPC, TrustDomain: identity.DefaultTrustDomain,
		Agents: AgentsConfig{Count: 1, Listen: agent.Defaults().Data.Listen, Cache: agent.Defaults().Cache.Bytes},
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
	if err := enroll(ctx, access, of, agentName(i)); err != nil {
		return err
	}
	// The server is not ready before the agent is.
	own, err := daemon.ListenAdmin(daemon.AdminConfig{})
	if err != nil {
		return err
	}
	env.Admin.Ready(own.IsReady)
	env.Admin = own
	env.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"agent": agentName(i)}, env.Metrics)
	group.Go(func() error {
		if err := agent.Run(ctx, env, of); err != nil {
			return fmt.Errorf("%s (see --agents-count and --agents-listen): %w", agentName(i), err)
		}
		return nil
	})
	return nil
}

// enroll gives an agent a fresh identity.
func enroll(ctx context.Context, access uplink.Config, of *agent.Config, name string) error {
	operator, err := uplink.Dial(access, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer operator.Close()
	token, err := groupv1.NewIdentityServiceClient(operator).CreateToken(ctx, &groupv1.CreateTokenRequest{Role: string(identity.Agent), Name: name})
	if err != nil {
		return fmt.Errorf("make a join token: %w", err)
	}
	as := uplink.Config{Endpoints: of.Managers, TrustDomain: of.TrustDomain, CredentialsDir: of.CredentialsDir}
	_, err = uplink.Enroll(ctx, as, token.GetToken())
	return err
}
