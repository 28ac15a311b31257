package manager_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Managers that know nothing of each other each have a first operator of their own, though the configurations lie in one directory.
func TestOperatorsLieBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml"), filepath.Join(dir, "three"), filepath.Join(dir, "admin.a"), filepath.Join(dir, "admin.b")}
	for _, file := range files {
		p := managertest.NewProcess(t, t.TempDir(), "--admin-access-file="+file)
		p.Access = file
		p.Start(t)
		p.WaitServing(t)
	}
	// A client that asks one manager with what the other trusts is told why nobody is a manager there, before the call is given up.
	strange, other := mustRead(t, files[0]), mustRead(t, files[1])
	strange.Endpoints = other.Endpoints
	client, err := sdk.Dial(strange)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		for client.HandshakeError() == nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := client.Status(ctx); err == nil {
		t.Error("a manager of another CA was believed")
	}
	if err := client.HandshakeError(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("the handshake with it: %v", err)
	}
	for _, file := range files {
		client, err := sdk.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Status(t.Context()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A configuration that an earlier version has written keeps the directory that it names: programs that run have read it.
func TestOperatorsDirectoryStays(t *testing.T) {
	for _, name := range []string{"admin.conf", "access.yaml"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			earlier := sdk.Config{Endpoints: []string{"127.0.0.1:7400"}, TrustDomain: sdk.DefaultTrustDomain, CredentialsDir: "admin"}
			if err := earlier.Write(file); err != nil {
				t.Fatal(err)
			}
			p := managertest.NewProcess(t, t.TempDir(), "--admin-access-file="+file)
			p.Access = file
			p.Start(t)
			p.WaitServing(t)
			if now := mustRead(t, file); filepath.Base(now.CredentialsDir) != "admin" {
				t.Errorf("its credentials are in %s now", now.CredentialsDir)
			}
		})
	}
}

// Who waits until a manager has begun, as systemd does, can go on with the operator's configuration, unless that cannot be written.
func TestBegunWithTheOperatorsConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		file  string
		wants string
	}{
		"written": {"admin.yaml", ""},
		// Below a file nothing can be written.
		"cannot be written": {"occupied/admin.yaml", "the operator's configuration was not written yet"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "occupied"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			config := managertest.Config(dir)
			config.Admin.File = filepath.Join(dir, test.file)
			admin, err := daemon.ListenAdmin(config.CommonConfig.Admin)
			if err != nil {
				t.Fatal(err)
			}
			starting := admin.IsReady().Error()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ended := make(chan error, 1)
			env := daemon.Env{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Admin: admin, Stdout: io.Discard}
			go func() { ended <- manager.Run(ctx, env, config) }()
			problem := admin.IsReady()
			for problem != nil && problem.Error() == starting && ctx.Err() == nil {
				runtime.Gosched()
				problem = admin.IsReady()
			}
			_, unwritten := os.Stat(config.Admin.File)
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			switch {
			case test.wants != "" && (problem == nil || problem.Error() != test.wants):
				t.Errorf("begun, and: %v", problem)
			case test.wants == "" && unwritten != nil:
				t.Errorf("begun (%v), and %v", problem, unwritten)
			}
		})
	}
}
