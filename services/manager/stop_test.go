package manager_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A manager that is asked to stop does not wait for streams that would go on for
// ever, and what it held goes on when it is back.
func TestStopDoesNotWaitForStreams(t *testing.T) {
	p := managertest.NewProcess(t, t.TempDir(), "--stop-wait=1m")
	p.Start(t)
	p.WaitServing(t)
	client := p.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	known := follow(t, client, "g")
	eventually(t, 30*time.Second, "the watcher knows the member", func() bool { return known.are("m") })
	p.Signal(t, syscall.SIGTERM)
	if status := p.WaitExit(t, 10*time.Second); status != 0 {
		t.Errorf("it ended with %d, want 0", status)
	}
	p.Start(t)
	p.WaitServing(t)
	if _, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "n"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the watcher goes on", func() bool { return known.are("m", "n") })
	if err := session.Leave(t.Context()); err != nil {
		t.Errorf("the session that was there before: %v", err)
	}
}
