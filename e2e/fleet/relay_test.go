package fleet_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk"
)

// "A group without agents still forms a tree of its members (application-level multicast)": one copy leaves the sender
// for four members, and when a member that relays dies meanwhile, the others still get the object.
func TestMembersRelayWithoutAgents(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const members, size = 4, 12 * link.MiB
	l := lab.New(1)
	manager, sender, lan := l.Host("manager"), l.Host("sender"), l.Router("lan")
	shape := link.Shape{Rate: 40 * link.Mbit}
	uplink := l.Link(sender, lan, shape).From(sender)
	var hosts []*lab.Host
	for i := range members {
		host := l.Host(fmt.Sprintf("m%d", i))
		l.Link(host, lan, shape)
		hosts = append(hosts, host)
	}
	labtest.Start(t, l)
	fleet := started(ctx, t, manager)
	if _, err := fleet.Client.CreateGroup(ctx, "group", sdk.Policy{MembersRelay: true}); err != nil {
		t.Fatal(err)
	}
	pulls, into := make([]*lab.Process, members), make([]string, members)
	for i, host := range hosts {
		into[i] = t.TempDir()
		pull, err := fleet.Groupcast(ctx, host, "pull", "--group", "group", "--as", fmt.Sprintf("m%d", i),
			"--node", fmt.Sprintf("m%d", i), "--label", "zone=lan", "--into", into[i], "--relay")
		if err != nil {
			t.Fatal(err)
		}
		pulls[i] = pull
	}
	awaitRelays(ctx, t, fleet.Client, members)
	first, push := startPush(ctx, t, fleet, sender, "first", size)
	if err := push.Wait(); err != nil {
		t.Fatalf("%v: %s", err, push.Output())
	}
	for i := range into {
		wantCopy(t, first, into[i])
	}
	if carried := uplink.Read().Count.Carried.Bytes; carried > size*5/4 {
		t.Errorf("%d bytes crossed the sender's link for %d members, want about one copy of %d", carried, members, size)
	}

	before := uplink.Read().Count.Carried.Bytes
	second, push := startPush(ctx, t, fleet, sender, "second", size, "--deadline", "30s")
	for uplink.Read().Count.Carried.Bytes < before+size/4 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	head := headOf(ctx, t, fleet.Client)
	if err := pulls[head].Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := push.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("%v, want exit status 3, for one member is gone: %s", err, push.Output())
	}
	for i := range into {
		if i != head {
			wantCopy(t, second, into[i])
		}
	}
}

// awaitRelays waits until so many members are session agents, too.
func awaitRelays(ctx context.Context, t *testing.T, client *sdk.Client, members int) {
	t.Helper()
	for online(ctx, t, client) < members {
		time.Sleep(20 * time.Millisecond)
	}
}

// online returns how many agents are online.
func online(ctx context.Context, t *testing.T, client *sdk.Client) (agents int) {
	t.Helper()
	all, err := client.Agents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range all {
		if agent.State == "online" {
			agents++
		}
	}
	return agents
}

// startPush begins to push a new file from a host.
func startPush(ctx context.Context, t *testing.T, fleet *fleet.Fleet, from *lab.Host, name string, size link.Bytes, flags ...string) (file string, push *lab.Process) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	content := make([]byte, size)
	_, _ = rand.Read(content)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	push, err := fleet.Groupcast(ctx, from, append([]string{"push", file, "--group", "group"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	return file, push
}

func wantCopy(t *testing.T, file, into string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(into, filepath.Base(file)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy in %s: %d bytes, %v; want the %d that were pushed", into, len(got), err, len(want))
	}
}

// headOf returns the member that relays to all others.
func headOf(ctx context.Context, t *testing.T, client *sdk.Client) (member int) {
	t.Helper()
	deliveries, err := client.Deliveries(ctx, "group")
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range deliveries {
		if listed.State != sdk.DeliveryRunning {
			continue
		}
		delivery, err := client.Delivery(ctx, listed.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range delivery.Tree {
			if _, err := fmt.Sscanf(node.ID, "agent/m%d.group", &member); err == nil && node.Parent == "member/"+delivery.Sender {
				return member
			}
		}
	}
	t.Fatal("no member relays for the sender")
	return 0
}
