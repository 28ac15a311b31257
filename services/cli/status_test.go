package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// What somebody has to take care of goes to standard error, so that standard output is only the table.
func TestStatusSaysWhatIsWrong(t *testing.T) {
	var table, said bytes.Buffer
	a := &app{stdout: &table, stderr: &said, output: "table"}
	if err := a.showStatus(sdk.Status{Name: "m", ReadOnlyReason: "no room", Absent: []string{"no agent is here", "no gatherer is here"}}); err != nil {
		t.Fatal(err)
	}
	if said.String() != "no room\nno agent is here\nno gatherer is here\n" || strings.Contains(table.String(), "no ") {
		t.Errorf("said %q beside the table:\n%s", said.String(), table.String())
	}
}

// A manager whose own disk is full says so, though another leads, and writes are accepted.
func TestStatusSaysWhoseDiskIsFull(t *testing.T) {
	var table, said bytes.Buffer
	a := &app{stdout: &table, stderr: &said, output: "table"}
	if err := a.showStatus(sdk.Status{Name: "m1", Leader: "m2", OwnStoreReason: "no room"}); err != nil {
		t.Fatal(err)
	}
	if said.String() != "manager/m1 would refuse writes if it led, and not m2: no room\n" || !strings.Contains(table.String(), "accepted") {
		t.Errorf("said %q beside the table:\n%s", said.String(), table.String())
	}
}

// A status names those that are away, with when they were last seen; of many, only the first.
func TestStatusSaysWhoIsAway(t *testing.T) {
	var table, said bytes.Buffer
	a := &app{stdout: &table, stderr: &said, output: "table"}
	seen := time.Now().Add(-5 * time.Minute)
	status := sdk.Status{Away: []sdk.Away{{ID: "gatherer/g1", Seen: seen}}}
	for i := range mostAway + 1 {
		status.Away = append(status.Away, sdk.Away{ID: fmt.Sprintf("replicator/r%d", i), Seen: seen})
	}
	if err := a.showStatus(status); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != mostAway+1 || lines[0] != "gatherer/g1 is absent, last seen 5m ago, at "+seen.Format(time.DateTime) || !strings.HasPrefix(lines[mostAway], "and 2 others") {
		t.Errorf("said:\n%s", said.String())
	}
}

// Agents that are offline are named, and of many the first.
func TestStatusSaysWhichAgentsAreOffline(t *testing.T) {
	var agents []sdk.Agent
	for i, state := range []string{"offline", "online", "offline", "offline", "offline"} {
		agents = append(agents, sdk.Agent{Name: fmt.Sprintf("a%d", i), State: state})
	}
	for count, want := range map[int]string{
		1: "offline: agent/a0 (groupcast agent list)\n",
		3: "offline: agent/a0, agent/a2 (groupcast agent list)\n",
		5: "offline: agent/a0, agent/a2, agent/a3 and 1 more (groupcast agent list)\n",
		0: "",
	} {
		var said bytes.Buffer
		a := &app{stderr: &said}
		a.sayOffline(agents[:count])
		if said.String() != want {
			t.Errorf("of %d agents: %q, want %q", count, said.String(), want)
		}
	}
}

// Managers are counted, and those that are missed are named. Without a leader nobody knows which are.
func TestStatusSaysWhichManagersAreMissed(t *testing.T) {
	var table, said bytes.Buffer
	a := &app{stdout: &table, stderr: &said, output: "table"}
	seen := time.Now().Add(-3 * time.Hour)
	status := sdk.Status{
		Leader: "m0", ManagersOnline: 2, ManagersOffline: 1,
		Managers: []sdk.Manager{{Name: "m0"}, {Name: "m1", Away: seen}, {Name: "m2"}},
	}
	if err := a.showStatus(status); err != nil {
		t.Fatal(err)
	}
	if want := "manager/m1 is absent, last seen 3h ago, at " + seen.Format(time.DateTime) + "\n"; said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
	if !strings.Contains(table.String(), " 2/3 ") {
		t.Errorf("2/3 is not in\n%s", table.String())
	}
	status.Leader = ""
	if cell := managersHere(status); cell != "?/3" {
		t.Errorf("without a leader: %q", cell)
	}
	if cell := managersHere(sdk.Status{Leader: "m0"}); cell != "-" {
		t.Errorf("of an earlier manager: %q", cell)
	}
}

// Pods are only spoken of where managers are found by the name of a service, or this is a pod itself.
func TestServicesAreKnownByTheirNames(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for endpoint, want := range map[string]bool{
		"groupcast-manager.groupcast.svc:7400": true, "groupcast-manager.groupcast.svc.cluster.local:7400": true, "m-0.m.g.svc.example.org:7400": true,
		"127.0.0.1:7400": false, "[::1]:7400": false, "svcs.example.org:7400": false, "groupcast-manager:7400": false,
	} {
		a := new(app)
		if a.expect(sdk.Config{Endpoints: []string{"10.0.0.5:7400", endpoint}}, "f"); a.inPods != want {
			t.Errorf("%s is a service: %v", endpoint, !want)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	a := new(app)
	if a.expect(sdk.Config{Endpoints: []string{"127.0.0.1:7400"}}, "f"); !a.inPods {
		t.Error("in a pod, it is not known that managers are pods")
	}
}

// If a call has no answer in time, a manager was asked before the end why that is: nobody is asked after it.
func TestManagersSayWhyNothingIsDone(t *testing.T) {
	cluster := managertest.StartCluster(t, 1)
	leader := cluster.Leader(t)
	a := &app{config: leader.Access, timeout: time.Second}
	client, err := a.client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	a.config = "" // by which nobody can be asked anew
	why := func() string {
		ctx, cancel := a.within(t.Context(), client)
		defer cancel()
		<-ctx.Done()
		return a.hint(&sdk.Error{Code: sdk.TimedOut})
	}
	if got, want := why(), ": is a manager at "+a.managers+"? (--timeout 1s)"; got != want {
		t.Errorf("with all well: %q, want %q", got, want)
	}
	cluster.Etcd.Freeze(t)
	defer cluster.Etcd.Thaw(t)
	for range 15 {
		if strings.HasPrefix(why(), ": no manager leads") {
			return
		}
	}
	t.Errorf("without a store it says %q", why())
}
