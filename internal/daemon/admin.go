package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/groupcast/groupcast/internal/version"
)

// AdminConfig says where the admin port is and what it shows.
type AdminConfig struct {
	Listen string `json:"listen" usage:"address of the admin port (health, metrics); empty has none"`
	Pprof  bool   `json:"pprof" usage:"serve Go's profiles under /debug/pprof on the admin port"`
}

// Admin is a process's admin port: /healthz, /readyz, /metrics and, if asked, /debug/pprof.
type Admin struct {
	mux      *http.ServeMux
	listener net.Listener // nil without an admin port
	stopped  chan struct{}

	mu    sync.Mutex
	ready []func() error // empty until the service has said how to check
}

var errStarting = errors.New("starting")

// ListenAdmin takes the admin port.
func ListenAdmin(config AdminConfig) (*Admin, error) {
	a := &Admin{mux: http.NewServeMux(), stopped: make(chan struct{})}
	a.mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	a.mux.HandleFunc("/readyz", a.serveReady)
	if config.Pprof {
		a.mux.HandleFunc("/debug/pprof/", pprof.Index)
		a.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		a.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		a.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		a.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	if config.Listen == "" {
		return a, nil
	}
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin port (set admin.listen to another address): %w", err)
	}
	a.listener = listener
	return a, nil
}

// Addr returns the admin port's address, or "none".
func (a *Admin) Addr() string {
	if a.listener == nil {
		return "none"
	}
	return a.listener.Addr().String()
}

// Ready adds a check of whether the service can do its work: it returns why not. If several
// services are one process, each adds a check, and all must be ready.
func (a *Admin) Ready(check func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = append(a.ready, check)
}

// gather serves the metrics of this registry, and of libraries that use only the default registry.
func (a *Admin) gather(registry *prometheus.Registry) {
	gatherers := prometheus.Gatherers{registry, prometheus.DefaultGatherer}
	a.mux.Handle("/metrics", promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{EnableOpenMetrics: true}))
}

// IsReady returns why the service cannot do its work.
func (a *Admin) IsReady() error {
	a.mu.Lock()
	checks := a.ready
	a.mu.Unlock()
	if len(checks) == 0 {
		return errStarting
	}
	var problems []error
	for _, check := range checks {
		problems = append(problems, check())
	}
	return errors.Join(problems...)
}

func (a *Admin) serveReady(w http.ResponseWriter, _ *http.Request) {
	if err := a.IsReady(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Serve answers until ctx is done or the service has stopped.
func (a *Admin) Serve(ctx context.Context) error {
	if a.listener == nil {
		return nil
	}
	server := &http.Server{Handler: a.mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(a.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin port: %w", err)
	case <-a.stopped: // the service stops first, so that its metrics can be read to the end
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(stopCtx) != nil {
		server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin port: %w", err)
	}
	return nil
}

func (a *Admin) stop() { close(a.stopped) }

func newRegistry(service string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "groupcast_build_info", Help: "The version of the running service; always 1.",
		ConstLabels: prometheus.Labels{"service": service, "version": version.String()},
	})
	info.Set(1)
	registry.MustRegister(info)
	return registry
}
