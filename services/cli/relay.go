package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/agent"
)

// relay is how a member relays.
type relay struct {
	on     bool
	listen string
	hosts  []string
	dir    string
	cache  bytesize.Size
}

func (r *relay) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&r.on, "relay", false, "relay to other members, too, as a session agent of this group (its policy has to allow it: --members-relay)")
	flags.StringVar(&r.listen, "relay-listen", "0.0.0.0:0", "address that others reach the relay at; port 0 lets the machine choose")
	flags.StringSliceVar(&r.hosts, "relay-host", nil, "names or addresses of this machine for others (those that it has)")
	flags.StringVar(&r.dir, "relay-cache", "", "directory of the relay's cache (below --into; else the system's for temporary files)")
	r.cache = 1 << 30
	flags.Var(&r.cache, "relay-cache-bytes", "how much the relay caches at most")
}

// check refuses flags of a relay without --relay.
func (r *relay) check(flags *pflag.FlagSet) error {
	for _, name := range []string{"relay-listen", "relay-host", "relay-cache", "relay-cache-bytes"} {
		if !r.on && flags.Changed(name) {
			return fmt.Errorf("--%s needs --relay", name)
		}
	}
	return nil
}

// relayDir is where a relay caches, below the directory that objects appear in.
const relayDir = ".groupcast-relay"

// start has the member relay until stop is called. If the relay fails later, the member still receives.
func (r *relay) start(ctx context.Context, a *app, session *sdk.Session, p *pull) (stop func(), err error) {
	if !r.on {
		return func() {}, nil
	}
	temporary, err := os.MkdirTemp("", "groupcast-relay-")
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	run, err := r.prepare(ctx, a, session, p, temporary)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("relay: %w", err), os.RemoveAll(temporary))
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := run(running); err != nil {
			fmt.Fprintf(a.stderr, "relaying ended, receiving goes on: %v\n", err)
		}
	})
	return func() {
		cancel()
		ended.Wait()
		_ = os.RemoveAll(temporary)
		if r.dir == "" && p.into != "" {
			_ = os.RemoveAll(cacheBelow(p.into, session))
			_ = os.Remove(filepath.Join(p.into, relayDir)) // unless another member relays from there
		}
	}, nil
}

// prepare gets the agent's identity, and returns a function that runs the agent.
func (r *relay) prepare(ctx context.Context, a *app, session *sdk.Session, p *pull, temporary string) (run func(context.Context) error, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	access, err := session.RelayAccess(ctx, filepath.Join(temporary, "identity"))
	if err != nil {
		return nil, err
	}
	admin, err := daemon.ListenAdmin(daemon.AdminConfig{})
	if err != nil {
		return nil, err
	}
	config := r.config(access, session, p, temporary)
	env := daemon.Env{
		Log:     slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Metrics: prometheus.NewRegistry(), Admin: admin, Stdout: io.Discard,
	}
	return func(ctx context.Context) error { return agent.Run(ctx, env, config) }, config.Validate()
}

// cacheBelow is where a member's relay caches below a directory that others may receive into, too.
func cacheBelow(into string, session *sdk.Session) string {
	member := session.Member()
	return filepath.Join(into, relayDir, member.Name+"."+member.Group)
}

// config is the agent's.
func (r *relay) config(access sdk.Config, session *sdk.Session, p *pull, temporary string) *agent.Config {
	config := agent.Defaults()
	config.Managers, config.TrustDomain, config.CredentialsDir = access.Endpoints, access.TrustDomain, access.CredentialsDir
	config.Node = p.join.Node
	config.Zone = cmp.Or(p.join.Labels["zone"], p.join.Labels["topology.kubernetes.io/zone"]) // as managers read a member's labels
	config.Data.Listen, config.Data.Hosts = r.listen, r.hosts
	config.Cache.Dir, config.Cache.Bytes = cmp.Or(r.dir, filepath.Join(temporary, "cache")), r.cache
	if r.dir == "" && p.into != "" {
		config.Cache.Dir = cacheBelow(p.into, session)
	}
	return config
}

// relayOn waits until a delivery that has ended here has ended for all, so that it is relayed to the others, and says that it waits.
func (a *app) relayOn(ctx context.Context, client *sdk.Client, in sdk.Incoming) {
	said := false
	for delivery, err := range client.WatchDelivery(ctx, in.ID) {
		if err != nil || delivery.State != sdk.DeliveryRunning {
			return
		}
		if !said {
			said = true
			fmt.Fprintf(a.stderr, "relaying %s until it has ended for all; interrupt to leave\n", printable.Text(in.Name))
		}
	}
}
