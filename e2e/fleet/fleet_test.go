package fleet_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit))
}

// started returns a fleet that is closed when the test ends.
func started(ctx context.Context, t *testing.T, manager *lab.Host) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Start(ctx, manager)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What is delivered crosses the links; what the manager is told does not.
func TestDeliveriesAloneCrossTheLinks(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := lab.New(1)
	manager, sender, agent, member := l.Host("manager"), l.Host("sender"), l.Router("agent"), l.Host("member")
	uplink := l.Link(sender, agent, link.Shape{}).From(sender)
	l.Link(member, agent, link.Shape{})
	labtest.Start(t, l)
	fleet := started(ctx, t, manager)
	if _, err := fleet.Agent(ctx, agent, "a", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Client.CreateGroup(ctx, "group", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	if _, err := fleet.Groupcast(ctx, member, "pull", "--group", "group", "--as", "member", "--into", into); err != nil {
		t.Fatal(err)
	}
	if err := fleet.AwaitMembers(ctx, "group", 1); err != nil {
		t.Fatal(err)
	}
	if carried := uplink.Read().Count.Carried.Bytes; carried > link.KiB {
		t.Errorf("%d bytes crossed the sender's link before anything was sent", carried)
	}
	source := filepath.Join(t.TempDir(), "object")
	if err := os.WriteFile(source, make([]byte, link.MiB), 0o600); err != nil {
		t.Fatal(err)
	}
	push, err := fleet.Groupcast(ctx, sender, "push", source, "--group", "group")
	if err != nil {
		t.Fatal(err)
	}
	if err := push.Wait(); err != nil {
		t.Fatalf("%v: %s", err, push.Output())
	}
	if state, err := os.Stat(filepath.Join(into, "object")); err != nil || state.Size() != int64(link.MiB) {
		t.Errorf("the copy: %v, %v", state, err)
	}
	if carried := uplink.Read().Count.Carried.Bytes; carried < link.MiB {
		t.Errorf("%d bytes crossed the sender's link", carried)
	}
}
