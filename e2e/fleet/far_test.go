package fleet_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk"
)

// A member with no agent near it, beyond a path that loses, is fed over as many connections as it takes to carry what one
// does not. The files of a directory, which then come in any order, are unchanged.
func TestFarMemberIsFedByManyConnections(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	l := lab.New(1)
	manager, near, member := l.Host("manager"), l.LAN("near"), l.Host("member")
	l.Link(near, member, link.Shape{Rate: 40 * link.Mbit, Delay: 40 * time.Millisecond, Loss: 0.01, Queue: link.Packets(300)})
	hosts := l.Hosts("h", 3)
	for _, host := range hosts {
		l.Link(host, near, link.Shape{})
	}
	labtest.Start(t, l)
	f := started(ctx, t, manager)
	if _, err := f.Client.CreateGroup(ctx, "group", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	if _, err := f.Groupcast(ctx, member, "pull", "--group", "group", "--as", "member", "--into", into); err != nil {
		t.Fatal(err)
	}
	if err := f.AwaitMembers(ctx, "group", 1); err != nil {
		t.Fatal(err)
	}
	// push pushes a directory through an agent that has just been started, and then stops the agent.
	push := func(through *lab.Host, name string, flags ...string) (took time.Duration) {
		agent, err := f.Agent(ctx, through, "near", t.TempDir(), flags...)
		if err != nil {
			t.Fatal(err)
		}
		source := filepath.Join(t.TempDir(), name)
		content := plantFiles(t, source)
		begun := time.Now()
		process, err := f.Groupcast(ctx, hosts[0], "push", source, "--group", "group", "--congestion", "cubic")
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Wait(); err != nil {
			t.Fatalf("%v: %s", err, process.Output())
		}
		took = time.Since(begun)
		if diff := cmp.Diff(content, readFiles(t, filepath.Join(into, name))); diff != "" {
			t.Errorf("-sent +landed: %.500s", diff)
		}
		t.Logf("%s took %v: %v", name, took, stripesTo(ctx, t, f, "member"))
		if err := agent.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for ctx.Err() == nil && online(ctx, t, f.Client) > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		return took
	}
	one := push(hosts[1], "by one", "--data-stripes", "1")
	many := push(hosts[2], "by many")
	if many > one/2 {
		t.Errorf("it took %v with as many connections as it likes, %v with one", many, one)
	}
}

// plantFiles creates a directory of some megabytes in files of various sizes, and returns its content.
func plantFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	for i, size := range []link.Bytes{0, 1, 300 * link.KiB, 1 * link.MiB, 70 * link.KiB, 2 * link.MiB, 5} {
		at := filepath.Join(dir, fmt.Sprintf("part%d", i%3))
		content := make([]byte, size)
		_, _ = rand.Read(content)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("file%d", i)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return readFiles(t, dir)
}

func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	read := make(map[string]string)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		read[name] = string(content)
	}
	return read
}

// stripesTo returns how many connections fed a member in the latest delivery, and why.
func stripesTo(ctx context.Context, t *testing.T, f *fleet.Fleet, member string) (why string) {
	t.Helper()
	deliveries, err := f.Client.Deliveries(ctx, "group")
	if err != nil {
		t.Fatal(err)
	}
	latest := slices.MaxFunc(deliveries, func(a, b sdk.Delivery) int { return a.Created.Compare(b.Created) })
	delivery, err := f.Client.Delivery(ctx, latest.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range delivery.Measurements.Links {
		if one.To == member {
			why = fmt.Sprintf("%d stripes, %s", one.Stripes, one.StripesWhy)
		}
	}
	return why
}
