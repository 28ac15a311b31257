// Package standalone runs every service in one process, with everything it needs
// made by itself below one directory: the state, the CA, and an operator's
// configuration for the groupcast command.
package standalone

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/agent"
	"github.com/groupcast/groupcast/services/gatherer"
	"github.com/groupcast/groupcast/services/manager"
	"github.com/groupcast/groupcast/services/replicator"
)

// Config is the configuration of a standalone server.
type Config struct {
	daemon.CommonConfig

	Data        string            `json:"data" usage:"directory that everything is kept under"`
	GRPC        daemon.GRPCConfig `json:"grpc"`
	TrustDomain string            `json:"trustDomain" usage:"trust domain of all identities"`
	Agents      AgentsConfig      `json:"agents"`
	Gatherer    GathererConfig    `json:"gatherer"`
	// Replicator is that of the server, which has one if the machine's LANs are given here.
	Replicator replicator.Settings `json:"replicator"`
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
	replicates := replicator.Defaults().Settings
	replicates.Targets, replicates.State = []string{}, ""
	return &Config{
		CommonConfig: of.CommonConfig, Data: "groupcast-data", GRPC: of.GRPC, TrustDomain: identity.DefaultTrustDomain,
		Agents:   AgentsConfig{Count: 1, Listen: agent.Defaults().Data.Listen, Cache: agent.Defaults().Cache.Bytes},
		Gatherer: GathererConfig{Enabled: true, Settings: gathers}, Replicator: replicates,
	}
}

// Validate reports all that is wrong, each with its path in this configuration: the services' own configurations are made of it.
func (c *Config) Validate() error {
	var problems []error
	note := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	note(c.Data != "", "data is empty: name a directory")
	err := identity.CheckTrustDomain(c.TrustDomain)
	note(err == nil, "trustDomain %v", err)
	note(c.Agents.Count >= 0 && c.Agents.Count <= 26, "agents.count is %d: want 0 to 26", c.Agents.Count)
	note(c.Agents.Cache >= agent.LeastCache, "agents.cache is %v: want at least %v", c.Agents.Cache, bytesize.Size(agent.LeastCache))
	_, err = c.agent(0, "127.0.0.1:7400")
	if problems = append(problems, err); errors.Join(problems...) != nil {
		return errors.Join(problems...)
	}
	return errors.Join(c.manager().Validate(), c.validateAgents(), c.validateGatherer(), c.validateReplicator())
}

// validateAgents reports what is wrong with the configurations that the agents get.
func (c *Config) validateAgents() error {
	var problems []error
	for i := range c.Agents.Count {
		of, err := c.agent(i, "127.0.0.1:7400")
		if err == nil {
			err = of.Validate()
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (c *Config) validateGatherer() error {
	if !c.Gatherer.Enabled {
		return nil
	}
	return below(gathererName, c.gatherer("127.0.0.1:7400").Validate())
}

func (c *Config) validateReplicator() error {
	if c.replicates() {
		return below(replicatorName, c.replicator("127.0.0.1:7400").Validate())
	}
	if of := c.Replicator; len(of.Sources)+len(of.Targets)+len(of.Devices) > 0 {
		return errors.New("replicator.lans is empty, and without it there is no replicator: name the network interface that leads to the LAN, as rack1=eth0")
	}
	return nil
}

// below puts a section before the paths with which problems begin, one problem on a line.
func below(section string, problems error) error {
	if problems == nil {
		return nil
	}
	return errors.New(section + "." + strings.ReplaceAll(problems.Error(), "\n", "\n"+section+"."))
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
	of.Cache.Sharers = c.Agents.Count
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

// replicates reports whether the server has a replicator.
func (c *Config) replicates() bool { return len(c.Replicator.LANs) > 0 }

// replicator returns the configuration of the replicator.
func (c *Config) replicator(managers string) *replicator.Config {
	of := replicator.Defaults()
	dir := filepath.Join(c.Data, replicatorName)
	of.CommonConfig, of.Managers, of.TrustDomain = c.CommonConfig, []string{managers}, c.TrustDomain
	of.CredentialsDir, of.Settings = filepath.Join(dir, "credentials"), c.Replicator
	of.State = cmp.Or(of.State, filepath.Join(dir, "state"))
	if len(of.Targets) == 0 {
		of.Targets = []string{filepath.Join(dir, "replicas")}
	}
	return of
}

const (
	gathererName   = "gatherer"
	replicatorName = "replicator"
)

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
		access, err := uplink.ReadConfig(filepath.Join(config.Data, adminFile))
		if err != nil {
			return err
		}
		parts, err := config.parts(access.Endpoints[0])
		if err != nil {
			return err
		}
		if err := startAll(ctx, env, group, access, parts); err != nil {
			return err
		}
		if !awaitReady(ctx, env.Admin) {
			return nil
		}
		_, err = fmt.Fprintf(env.Stdout, "ready: %s\n", filepath.Join(config.Data, adminFile))
		return err
	})
	return group.Wait()
}

// part is a service that has its identity from the manager, as it would if it ran elsewhere.
type part struct {
	id    identity.ID
	as    uplink.Config
	flags string // flags that say where it is
	admin *daemon.Admin
	run   func(ctx context.Context, env daemon.Env) error
}

// parts returns the services except for the manager.
func (c *Config) parts(managers string) (all []part, err error) {
	for i := range c.Agents.Count {
		of, err := c.agent(i, managers)
		if err != nil {
			return nil, err
		}
		name := agentName(i)
		all = append(all, part{
			id: identity.ID{Role: identity.Agent, Name: name},
			as: of.Uplink(), flags: "--agents-count and --agents-listen",
			run: func(ctx context.Context, env daemon.Env) error {
				env.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"agent": name}, env.Metrics)
				return agent.Run(ctx, env, of)
			},
		})
	}
	if c.Gatherer.Enabled {
		of := c.gatherer(managers)
		all = append(all, part{
			id: identity.ID{Role: identity.Gatherer, Name: gathererName},
			as: of.Uplink(), flags: "--gatherer-grpc-listen and --gatherer-data-listen",
			run: func(ctx context.Context, env daemon.Env) error { return gatherer.Run(ctx, env, of) },
		})
	}
	if c.replicates() {
		of := c.replicator(managers)
		all = append(all, part{
			id: identity.ID{Role: identity.Replicator, Name: replicatorName},
			as: of.Uplink(), flags: "--replicator-lans",
			run: func(ctx context.Context, env daemon.Env) error { return replicator.Run(ctx, env, of) },
		})
	}
	return all, nil
}

// roomPause is the pause before a store that had no room is asked again.
const roomPause = 5 * time.Second

// startAll starts parts, and tries again with those that cannot get an identity because the store has no room: somebody has to be able to make
// some meanwhile. The server is not ready before all are.
func startAll(ctx context.Context, env daemon.Env, group *errgroup.Group, access uplink.Config, parts []part) error {
	for i := range parts {
		admin, err := daemon.ListenAdmin(daemon.AdminConfig{})
		if err != nil {
			return err
		}
		env.Admin.Ready(admin.IsReady)
		parts[i].admin = admin
	}
	for {
		var waiting []part
		for _, part := range parts {
			err := part.start(ctx, env, group, access)
			switch {
			case uplink.Reason(err) == "STORE_FULL":
				env.Log.Warn("a part has no identity, and waits for one", "part", part.id.Name, "error", err)
				waiting = append(waiting, part)
			case err != nil:
				return fmt.Errorf("%s: %w", part.id.Name, err)
			}
		}
		if parts = waiting; len(parts) == 0 || !pause.For(ctx, roomPause) {
			return nil
		}
	}
}

// start runs a part, with a fresh identity or, if the store has no room for that, the one it has.
func (p part) start(ctx context.Context, env daemon.Env, group *errgroup.Group, access uplink.Config) error {
	err := enroll(ctx, access, p.as, p.id)
	if uplink.Reason(err) == "STORE_FULL" && p.isEnrolled(access) {
		env.Log.Warn("a part goes on with the identity that it has", "part", p.id.Name, "error", err)
		err = nil
	}
	if err != nil {
		return cmp.Or(ctx.Err(), err) // a call that was broken off says so in words alone
	}
	env.Admin = p.admin
	group.Go(func() error {
		if err := p.run(ctx, env); err != nil {
			return fmt.Errorf("%s (see %s): %w", p.id.Name, p.flags, err)
		}
		return nil
	})
	return nil
}

// isEnrolled reports whether a part has an identity of an earlier start that the manager accepts: it is in force, and of the CA of which the
// operator's is.
func (p part) isEnrolled(access uplink.Config) bool {
	own, err := identity.FilesIn(p.as.CredentialsDir).Credentials()
	if err != nil {
		return false
	}
	operator, err := identity.FilesIn(access.CredentialsDir).Credentials()
	if err != nil {
		return false
	}
	return own.ID == p.id && slices.EqualFunc(own.Authorities, operator.Authorities, bytes.Equal) && own.Check(p.as.TrustDomain, time.Now()) == nil
}

// readyPoll is how often it is checked whether all services are ready.
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

// enroll gives a service a fresh identity.
func enroll(ctx context.Context, access, as uplink.Config, id identity.ID) error {
	operator, err := uplink.Dial(access, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer operator.Close()
	token, err := groupv1.NewIdentityServiceClient(operator).CreateToken(ctx, &groupv1.CreateTokenRequest{Role: string(id.Role), Name: id.Name})
	if err != nil {
		return fmt.Errorf("make a join token: %w", uplink.InWords(err))
	}
	_, err = uplink.Enroll(ctx, as, id.Role, token.GetToken())
	return err
}
