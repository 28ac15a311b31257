// Package standalone runs every service in one process, with everything it needs
// made by itself below one directory: the state, the CA, and an operator's
// configuration for the groupcast command.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager"
)

// Config is the configuration of a standalone server.
type Config struct {
	daemon.CommonConfig

	Data        string            `json:"data" usage:"directory that everything is kept under"`
	GRPC        daemon.GRPCConfig `json:"grpc"`
	TrustDomain string            `json:"trustDomain" usage:"trust domain of all identities"`
}

// Defaults returns the default configuration.
func Defaults() *Config {
	of := manager.Defaults()
	return &Config{
		CommonConfig: of.CommonConfig, Data: "groupcast-data", GRPC: of.GRPC, TrustDomain: identity.DefaultTrustDomain,
	}
}

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	if c.Data == "" {
		return errors.New("data is empty: name a directory")
	}
	return c.manager().Validate()
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

// readyPoll is how often it is looked whether all serves.
const readyPoll = 10 * time.Millisecond

// Run runs all services until ctx is done. When all of them serve, it says so on
// standard output.
func Run(ctx context.Context, env daemon.Env, config *Config) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return manager.Run(ctx, env, config.manager()) })
	group.Go(func() error {
		ticker := time.NewTicker(readyPoll)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			if env.Admin.IsReady() == nil {
				_, err := fmt.Fprintf(env.Stdout, "ready: %s\n", filepath.Join(config.Data, adminFile))
				return err
			}
		}
	})
	return group.Wait()
}
