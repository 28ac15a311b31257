package manager

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/services/manager/store"
)

// UseAPIServer has managers of a test find this API server.
func UseAPIServer(t *testing.T, client *kubernetes.Client) {
	before := apiServer
	t.Cleanup(func() { apiServer = before })
	apiServer = func() (*kubernetes.Client, error) { return client, nil }
}

// OpenStore opens the store of a manager that is none of several by itself.
func OpenStore(ctx context.Context, env daemon.Env, config *Config) (*store.Store, error) {
	return openStore(ctx, env, config, nil)
}

// Goodbye is what a manager does when it stops in order.
func Goodbye(ctx context.Context, self store.Candidate, of *store.Store) {
	(&leadership{self: self, store: of, log: slog.New(slog.DiscardHandler)}).goodbye(ctx)
}

// Together is two gauges whose values one look finds out.
func Together(look func() []float64, first, second string) prometheus.Collector {
	return newTogether(look, []gaugeName{{name: first}, {name: second}})
}

// Announced returns where other managers reach a manager that listens at an address.
func Announced(config *Config, listening string) string { return config.announced(listening) }
