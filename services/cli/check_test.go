package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// lagging is a way over which what comes takes a while.
type lagging time.Duration

func (l lagging) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return laggingConn{conn, time.Duration(l)}, err
}

type laggingConn struct {
	net.Conn

	lag time.Duration
}

func (c laggingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(c.lag)
	return n, err
}

// A check that is interrupted while its group is being made leaves none behind.
func TestInterruptedCheckLeavesNoGroup(t *testing.T) {
	m := managertest.Start(t)
	config, err := managertest.ReadConfig(m.Access)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.Dial(config, sdk.WithDialer(lagging(200*time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	other := m.Client(t)
	groups := func() int {
		all, err := other.Groups(t.Context())
		if err != nil {
			t.Error(err)
		}
		return len(all)
	}
	done := make(chan error, 1)
	go func() {
		done <- (&app{stdout: io.Discard, stderr: io.Discard}).check(ctx, client, &check{dir: t.TempDir()})
	}()
	for groups() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	interrupt()
	if err := <-done; statusOf(err) != exitInterrupted || groups() != 0 {
		t.Errorf("it ends with %v, and %d groups are there", err, groups())
	}
}

// A check that nobody got is no partial success; one that got something else matters most.
func TestOutcomeOfCheck(t *testing.T) {
	whole, none, other := checked{SHA256: "a"}, checked{Error: "nothing arrived"}, checked{SHA256: "b"}
	for _, tt := range []struct {
		results []checked
		want    int
	}{
		{[]checked{whole, whole}, exitOK},
		{[]checked{whole, none}, exitPartial},
		{[]checked{none, none}, exitFailed},
		{[]checked{other, none, whole}, exitDamaged},
	} {
		if err := compare(tt.results, "a"); statusOf(err) != tt.want {
			t.Errorf("%v: %v, want %d", tt.results, err, tt.want)
		}
	}
}

// However much is to be delivered, a check can be interrupted while it is written, and while a copy is read.
func TestChecksHeedInterrupts(t *testing.T) {
	dir := t.TempDir()
	ctx, interrupt := context.WithTimeout(t.Context(), time.Millisecond)
	defer interrupt()
	if _, err := writeRandom(ctx, filepath.Join(dir, "source"), 1<<62); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("written: %v", err)
	}
	if err := os.Truncate(filepath.Join(dir, "source"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := hashOf(ctx, filepath.Join(dir, "source")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
}
