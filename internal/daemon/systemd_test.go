package daemon_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/daemon"
)

// systemd is told when a service has begun, what it waits for, and that it is about to end and how long that may take:
// longer than it waits for calls.
func TestSystemdIsTold(t *testing.T) {
	told := listenAsSystemd(t)
	status, _, stderr := execute(func(ctx context.Context, env daemon.Env, _ *settings) error {
		wantTold(t, told, "STATUS=starting")
		var known atomic.Bool
		env.Admin.Ready(func() error {
			if known.Load() {
				return nil
			}
			return errors.New("no manager knows it yet")
		})
		wantTold(t, told, "READY=1\nSTATUS=no manager knows it yet")
		known.Store(true)
		wantTold(t, told, "STATUS=ready")
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		wantTold(t, told, "STOPPING=1\nEXTEND_TIMEOUT_USEC=170000000")
		return nil
	}, "--stop-wait", "2m")
	if status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// A service that ends by itself does so whether systemd listens or not.
func TestEndsWithSystemd(t *testing.T) {
	ends := func(context.Context, daemon.Env, *settings) error { return nil }
	listenAsSystemd(t)
	if status, _, stderr := execute(ends); status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	if status, _, stderr := execute(ends); status != 0 {
		t.Errorf("with a socket that nobody listens at: status %d: %s", status, stderr)
	}
}

// listenAsSystemd makes this process notify the returned socket.
func listenAsSystemd(t *testing.T) *net.UnixConn {
	t.Helper()
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram(address.Net, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", address.Name)
	return socket
}

func wantTold(t *testing.T, told *net.UnixConn, want string) {
	t.Helper()
	if err := told.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Error(err)
	}
	buffer := make([]byte, 1024)
	n, err := told.Read(buffer)
	if got := string(buffer[:n]); err != nil || got != want {
		t.Errorf("systemd is told %q (%v), want %q", got, err, want)
	}
}
