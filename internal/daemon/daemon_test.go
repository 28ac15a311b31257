package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/daemon"
)

func TestExitStatus(t *testing.T) {
	works := func(context.Context, daemon.Env, *settings) error { return nil }
	fails := func(context.Context, daemon.Env, *settings) error { return errors.New("the disk is on fire") }
	failsTwice := func(context.Context, daemon.Env, *settings) error {
		return errors.Join(errors.New("the disk is on fire"), errors.New("so is the other"), errors.New("the disk is on fire"))
	}
	for _, tt := range []struct {
		name           string
		args           []string
		run            daemon.Run[*settings]
		status         int
		stdout, stderr string // what they contain; empty means nothing at all, apart from the log
	}{
		{"works", nil, works, 0, "", "msg=stopped"},
		{"fails", nil, fails, 1, "", "groupcast-test: the disk is on fire\n"},
		{"fails, and logs JSON", []string{"--log-format=json"}, fails, 1, "", `"level":"ERROR","msg":"failed","service":"test","error":"the disk is on fire"}`},
		{"called wrongly", []string{"--naem=x"}, works, 2, "", "groupcast-test: unknown flag --naem: did you mean --name?"},
		{"configured wrongly", []string{"--workers=0"}, works, 2, "", "groupcast-test: workers is 0"},
		{"configured wrongly twice", []string{"--workers=0", "--name="}, works, 2, "", "groupcast-test: name is empty; workers is 0: want at least 1\n"},
		{"fails in several ways", nil, failsTwice, 1, "", "groupcast-test: the disk is on fire; so is the other\n"},
		{"help", []string{"--help"}, fails, 0, "Usage: groupcast-test [flags]", ""},
		{"short help", []string{"-h"}, fails, 0, "--store-data-dir", ""},
		{"version", []string{"--version"}, fails, 0, "groupcast-test ", ""},
		{"printed", []string{"--print-config", "--name=x"}, fails, 0, "\nname: x\n", ""},
		{"printed, of what cannot start", []string{"--print-config", "--workers=0", "--name=x"}, works, 2, "\nname: x\n", "groupcast-test: workers is 0"},
		{"its schema", []string{"--print-schema"}, fails, 0, `"title": "Configuration of groupcast-test"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr := execute(tt.run, tt.args...)
			if status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, stderr)
			}
			wantOutput(t, "stdout", stdout, tt.stdout)
			wantOutput(t, "stderr", stderr, tt.stderr)
		})
	}
}

func TestSignalsStopInOrder(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			var cleaned bool
			status, _, stderr := execute(func(ctx context.Context, env daemon.Env, _ *settings) error {
				self, err := os.FindProcess(os.Getpid())
				if err != nil {
					return err
				}
				if err := self.Signal(signal); err != nil {
					return err
				}
				<-ctx.Done()
				// The metrics can be read to the end.
				if _, err := get(env, "/metrics"); err != nil {
					return err
				}
				cleaned = true
				return nil
			})
			if status != 0 || !cleaned {
				t.Errorf("status %d, cleaned up %v: %s", status, cleaned, stderr)
			}
		})
	}
}

// A service that waits for others, as an agent does for its managers, is stopped in order, too; a service that fails
// while it is stopped has failed.
func TestSignalWhileItBegins(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
	}{{fmt.Errorf("enroll: %w", context.Canceled), 0}, {errors.New("the disk is on fire"), 1}} {
		status, _, stderr := execute(func(ctx context.Context, _ daemon.Env, _ *settings) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-ctx.Done()
			return tt.err
		})
		if status != tt.status {
			t.Errorf("%v: status %d, want %d: %s", tt.err, status, tt.status, stderr)
		}
	}
}

func TestAdminPort(t *testing.T) {
	status, _, stderr := execute(func(_ context.Context, env daemon.Env, _ *settings) error {
		wantPage(t, env, "/healthz", http.StatusOK, "ok")
		wantPage(t, env, "/readyz", http.StatusServiceUnavailable, "starting")
		var leads atomic.Bool
		env.Admin.Ready(func() error {
			if !leads.Load() {
				return errors.New("no manager leads")
			}
			return nil
		})
		env.Admin.Ready(func() error { return nil }) // of another service
		wantPage(t, env, "/readyz", http.StatusServiceUnavailable, "no manager leads")
		wantPage(t, env, "/healthz", http.StatusOK, "ok")
		leads.Store(true)
		wantPage(t, env, "/readyz", http.StatusOK, "ok")

		env.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "groupcast_test_own"}, func() float64 { return 7 }))
		wantPage(t, env, "/metrics", http.StatusOK, "\ngo_goroutines ")
		wantPage(t, env, "/metrics", http.StatusOK, "\nprocess_resident_memory_bytes ")
		wantPage(t, env, "/metrics", http.StatusOK, `groupcast_build_info{service="test",version="`)
		wantPage(t, env, "/metrics", http.StatusOK, "\ngroupcast_test_own 7\n")

		wantPage(t, env, "/debug/pprof/", http.StatusNotFound, "")
		wantPage(t, env, "/", http.StatusNotFound, "")
		return nil
	})
	if status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestPprofWhenAsked(t *testing.T) {
	execute(func(_ context.Context, env daemon.Env, _ *settings) error {
		wantPage(t, env, "/debug/pprof/", http.StatusOK, "goroutine")
		return nil
	}, "--admin-pprof")
}

func TestNoAdminPort(t *testing.T) {
	status, _, stderr := execute(func(_ context.Context, env daemon.Env, _ *settings) error {
		if env.Admin.Addr() != "none" {
			t.Errorf("the admin port is at %s", env.Admin.Addr())
		}
		return nil
	}, "--admin-listen=")
	if status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestAdminPortInUse(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	status, _, stderr := execute(func(context.Context, daemon.Env, *settings) error {
		t.Error("the service ran without its admin port")
		return nil
	}, "--admin-listen="+other.Addr().String())
	if status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	wantOutput(t, "stderr", stderr, "admin port (set admin.listen to another address): listen tcp "+other.Addr().String()+": bind: address already in use")
}

func TestLogFormats(t *testing.T) {
	logs := func(_ context.Context, env daemon.Env, _ *settings) error {
		env.Log.Debug("a detail", "count", 7)
		return nil
	}
	_, _, quiet := execute(logs)
	_, _, text := execute(logs, "--log-level=debug")
	_, _, json := execute(logs, "--log-level=debug", "--log-format=json")
	if strings.Contains(quiet, "a detail") {
		t.Errorf("a detail is logged by default: %s", quiet)
	}
	wantOutput(t, "text", text, `level=DEBUG msg="a detail" service=test count=7`)
	wantOutput(t, "JSON", json, `"level":"DEBUG","msg":"a detail","service":"test","count":7`)
}

// execute runs a service as a process would.
func execute(run daemon.Run[*settings], args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = daemon.Process[*settings]{Service: "test", Config: defaults(), Run: run}.Execute(args, nil, &out, &err)
	return status, out.String(), err.String()
}

func wantOutput(t *testing.T, name, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

type page struct {
	status int
	text   string
}

func get(env daemon.Env, path string) (page, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + env.Admin.Addr() + path)
	if err != nil {
		return page{}, fmt.Errorf("admin port: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return page{response.StatusCode, string(text)}, err
}

func wantPage(t *testing.T, env daemon.Env, path string, status int, text string) {
	t.Helper()
	got, err := get(env, path)
	if err != nil || got.status != status || !strings.Contains(got.text, text) {
		t.Errorf("%s is %d %.200q (%v), want %d %q", path, got.status, got.text, err, status, text)
	}
}
