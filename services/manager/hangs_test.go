package manager_test

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A proxy spreads connections over the managers, and does not change that when one of them hangs: the sessions that lead to that one go on over
// others before they expire.
func TestSessionsOutliveAManagerThatHangsBehindAProxy(t *testing.T) {
	t.Parallel()
	const many = 6
	cluster := managertest.StartCluster(t, 3)
	var addresses []string
	for _, p := range cluster.Managers {
		addresses = append(addresses, p.Address)
	}
	proxied := cluster.Config()
	proxied.Endpoints = []string{newSilencer(t, addresses...).address}
	client := cluster.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	for i := range many { // each a connection of its own
		own, err := sdk.Dial(proxied)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { own.Close() })
		if _, err := own.Join(t.Context(), sdk.Join{Group: "g", Name: fmt.Sprintf("m%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	leader := cluster.Leader(t)
	follower := cluster.Follower(leader)
	begun, err := client.Members(t.Context(), "g")
	if err != nil || len(begun) != many {
		t.Fatalf("%d members, %v", len(begun), err)
	}
	for _, hanging := range []*managertest.Process{follower, leader} {
		hanging.Freeze(t)
		wait(t, 2*group.Expiry)
		members, err := awake(t, cluster, hanging).Members(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		if len(members) != many {
			t.Fatalf("%d members have a session after a manager hung (leader: %v), want %d", len(members), hanging == leader, many)
		}
		for i, m := range members {
			if m.State != "active" || m.Incarnation != begun[i].Incarnation {
				t.Errorf("%s is %v, incarnation %d; want the session that it began with", m.Name, m.State, m.Incarnation)
			}
		}
		hanging.Thaw(t)
		cluster.Leader(t)
	}
}

// awake returns a client of all managers except one.
func awake(t *testing.T, cluster *managertest.Cluster, but *managertest.Process) *sdk.Client {
	t.Helper()
	config := cluster.Config()
	config.Endpoints = nil
	for _, p := range cluster.Managers {
		if p != but {
			config.Endpoints = append(config.Endpoints, p.Address)
		}
	}
	client, err := sdk.Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
