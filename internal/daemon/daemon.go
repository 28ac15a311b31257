package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/interrupt"
	"github.com/groupcast/groupcast/internal/version"
)

// Config is what a service's config struct must be able to do.
type Config interface {
	// Common returns the part that every service has.
	Common() *CommonConfig
	// Validate reports everything that is wrong, joined into one error.
	Validate() error
}

// CommonConfig is the part of the configuration that every service has.
type CommonConfig struct {
	Admin    AdminConfig `json:"admin"`
	Log      LogConfig   `json:"log"`
	StopWait Duration    `json:"stopWait" usage:"how long a stop of a manager or a gatherer waits for calls in progress; zero does not wait"`
}

// LogConfig says what is logged and how.
type LogConfig struct {
	Level  slog.Level `json:"level" usage:"least severe level to log: debug, info, warn or error"`
	Format string     `json:"format" usage:"text or json"`
}

// CommonDefaults returns the defaults of the common part for a service whose admin port is addr.
func CommonDefaults(addr string) CommonConfig {
	return CommonConfig{
		Admin:    AdminConfig{Listen: addr},
		Log:      LogConfig{Level: slog.LevelInfo, Format: "text"},
		StopWait: Duration(10 * time.Second),
	}
}

// Common returns c: a service's config that embeds CommonConfig has this method.
func (c *CommonConfig) Common() *CommonConfig { return c }

func (c *CommonConfig) validate() error {
	var problems []error
	if c.Log.Format != "text" && c.Log.Format != "json" {
		problems = append(problems, fmt.Errorf("log.format is %q: want text or json", c.Log.Format))
	}
	if c.StopWait < 0 {
		problems = append(problems, fmt.Errorf("stopWait is %v: want 0 or more", c.StopWait))
	}
	return errors.Join(problems...)
}

// Env is what a process gives to the service that runs in it.
type Env struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Admin   *Admin
	// Network is the machine's own if this is nil.
	Network Network
	// Stdout is for data that other programs read, such as the line that says that all is ready.
	Stdout io.Writer
}

// Run is a service's body: it returns nil when ctx is done and everything that it started has ended.
type Run[C Config] func(ctx context.Context, env Env, config C) error

// Main runs a service as this process and exits with its status: 0 after an
// orderly stop, 1 after a failure, 2 when it was called wrongly.
func Main[C Config](service string, config C, run Run[C]) {
	os.Exit(Process[C]{Service: service, Config: config, Run: run}.Execute(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// Process is a service about to become a process.
type Process[C Config] struct {
	Service string
	Config  C
	Run     Run[C]
}

// garbagePercent is how much garbage a service lets gather, in percent of what it holds. Services
// hold much that is small and rarely used: memory costs them more than garbage collection does.
// GOGC in the environment overrides it.
const garbagePercent = 50

// Execute runs the process with these arguments and returns its exit status.
func (p Process[C]) Execute(args, environ []string, stdout, stderr io.Writer) int {
	printConfig, err := Load(p.Service, p.Config, args, environ)
	if printConfig { // even if it cannot start: that is what one looks at it for
		if status := p.answer(Print(p.Config), stdout, stderr); status != 0 || err == nil {
			return status
		}
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return p.answer(Usage(p.Service, p.Config), stdout, stderr)
	case errors.Is(err, errVersion):
		return p.answer(fmt.Sprintf("groupcast-%s %s\n", p.Service, version.String()), stdout, stderr)
	case errors.Is(err, errSchema):
		return p.answer(Schema(p.Service, p.Config), stdout, stderr)
	case err != nil:
		fmt.Fprintf(stderr, "groupcast-%s: %s\n", p.Service, oneLine(err))
		return 2
	}
	if _, chosen := environment(environ)["GOGC"]; !chosen {
		debug.SetGCPercent(garbagePercent)
	}
	ctx, stop := interrupt.Context()
	defer stop()
	log := newLogger(p.Config.Common().Log, stderr).With("service", p.Service)
	if err := p.serve(ctx, log, stdout); err != nil {
		if p.Config.Common().Log.Format == "json" { // its reader expects nothing else
			log.Error("failed", "error", err)
		} else {
			fmt.Fprintf(stderr, "groupcast-%s: %s\n", p.Service, oneLine(err))
		}
		return 1
	}
	return 0
}

// oneLine returns an error's text on one line, as logs have one line per event. Of lines that joined errors have in
// common, it keeps one.
func oneLine(err error) string {
	var said []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}

// answer writes what was asked for instead of running, and returns the exit status.
func (p Process[C]) answer(text string, stdout, stderr io.Writer) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		fmt.Fprintf(stderr, "groupcast-%s: %v\n", p.Service, err)
		return 1
	}
	return 0
}

// serve runs the service beside its admin port; the end of either is the end of both.
func (p Process[C]) serve(ctx context.Context, log *slog.Logger, stdout io.Writer) error {
	admin, err := ListenAdmin(p.Config.Common().Admin)
	if err != nil {
		return err
	}
	metrics := newRegistry(p.Service)
	env := Env{Log: log, Metrics: metrics, Admin: admin, Stdout: stdout}
	admin.gather(metrics)
	log.Info("starting", "version", version.String(), "admin", admin.Addr())
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return admin.Serve(running) })
	group.Go(func() error {
		admin.tellSystemd(running, log, p.Config.Common().StopWait.Std())
		return nil
	})
	group.Go(func() error {
		defer admin.stop()
		return p.Run(running, env, p.Config)
	})
	err = group.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // the service was stopped while it waited for others to begin, which is orderly, too
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

func newLogger(config LogConfig, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: config.Level}
	if config.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
