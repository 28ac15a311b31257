package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk"
)

// Members on machines without an agent are shared among the agents of their cluster: no agent sends more than two copies,
// where a single one would send four.
func TestAgentsShareACrowd(t *testing.T) {
	labtest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const members, agents, size, rate = 4, 3, 12 * link.MiB, 40 * link.Mbit
	l := lab.New(1)
	manager, sender, lan := l.Host("manager"), l.Host("sender"), l.Router("lan")
	shape := link.Shape{Rate: rate}
	l.Link(sender, lan, shape)
	uplinks := make(map[*lab.Host]lab.Way)
	for i := range agents {
		host := l.Host(fmt.Sprintf("a%d", i))
		uplinks[host] = l.Link(host, lan, shape).From(host)
	}
	guests := l.Hosts("m", members)
	for _, host := range guests {
		l.Link(host, lan, shape)
	}
	labtest.Start(t, l)
	fleet := started(ctx, t, manager)
	for host := range uplinks {
		if _, err := fleet.Agent(ctx, host, "lan", t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fleet.Client.CreateGroup(ctx, "group", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	into := make([]string, members)
	for i, host := range guests {
		into[i] = t.TempDir()
		if _, err := fleet.Groupcast(ctx, host, "pull", "--group", "group", "--as", host.Name(), "--label", "zone=lan", "--into", into[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := fleet.AwaitMembers(ctx, "group", members); err != nil {
		t.Fatal(err)
	}
	file, push := startPush(ctx, t, fleet, sender, "model", size)
	if err := push.Wait(); err != nil {
		t.Fatalf("%v: %s", err, push.Output())
	}
	t.Log(push.Output())
	for i := range into {
		wantCopy(t, file, into[i])
	}
	for host, uplink := range uplinks {
		if carried := uplink.Read().Count.Carried.Bytes; carried > size*9/4 {
			t.Errorf("%s sent %d bytes, want about two copies of %d at most", host.Name(), carried, size)
		}
	}
}
