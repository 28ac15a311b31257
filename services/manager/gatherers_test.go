package manager_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// startGatherer is the manager's side of a gatherer: its registration and reports.
func startGatherer(t *testing.T, config sdk.Config, address string) (stop context.CancelFunc, ended chan error) {
	t.Helper()
	link := managertest.Dial(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() {
		ended <- link.RegisterGatherer(ctx, &gatherv1.GathererRegistration{Addresses: []string{address}, Labels: map[string]string{"site": "a"}},
			func() *gatherv1.GathererReport {
				return &gatherv1.GathererReport{Clients: 3, ReceivedBytesPerSecond: 1000}
			})
	})
	return cancel, ended
}

// gathererIs waits until a gatherer has a state, or is gone.
func gathererIs(t *testing.T, client *sdk.Client, name, state string, holds func(sdk.Gatherer) bool) {
	t.Helper()
	eventually(t, time.Minute, name+" is "+state, func() bool {
		all, err := client.Gatherers(t.Context())
		if err != nil {
			return false // no manager leads
		}
		for _, one := range all {
			if one.Name == name {
				return string(one.State) == state && (holds == nil || holds(one))
			}
		}
		return state == "gone"
	})
}

// A gatherer is listed with where it is and what it said last. A newer one of its name fences it, and one that stops is forgotten at once. A
// member finds a gatherer by its name, and lists none.
func TestGathererLife(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	client, access := m.Client(t), mustRead(t, m.Access)
	config := letIn(t, access, "gatherer", "g1")
	_, ended := startGatherer(t, config, "10.0.0.1:7420")
	gathererIs(t, client, "g1", "online", func(g sdk.Gatherer) bool {
		return g.Addresses[0] == "10.0.0.1:7420" && g.Labels["site"] == "a" && g.Clients == 3 && g.BytesPerSecond == 1000
	})
	stop, last := startGatherer(t, config, "10.0.0.2:7420")
	var fenced *uplink.GathererFenced
	if err := <-ended; !errors.As(err, &fenced) {
		t.Errorf("the older one ends with %v", err)
	}
	member := dial(t, letIn(t, access, "agent", "edge"))
	eventually(t, 30*time.Second, "the newer one is found", func() bool {
		found, err := member.Gatherer(t.Context(), "g1")
		return err == nil && found.State == "online" && found.Addresses[0] == "10.0.0.2:7420"
	})
	if _, err := member.Gatherers(t.Context()); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("a client lists gatherers: %v", err)
	}
	if _, err := member.Gatherer(t.Context(), "g2"); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("a gatherer that there is not: %v", err)
	}
	stop()
	if err := <-last; err != nil {
		t.Errorf("one that stops ends with %v", err)
	}
	gathererIs(t, client, "g1", "gone", nil)
}

// A new leader knows the gatherers, and they go on under it with the incarnation that they had.
func TestGatherersOutliveTheLeader(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 2)
	leader := cluster.Leader(t)
	other := cluster.Follower(leader)
	access := mustRead(t, leader.Access)
	config := letIn(t, access, "gatherer", "g1")
	config.Endpoints = append(config.Endpoints, mustRead(t, other.Access).Endpoints...)
	startGatherer(t, config, "10.0.0.1:7420")
	var before uint64
	gathererIs(t, leader.Client(t), "g1", "online", func(g sdk.Gatherer) bool { before = g.Incarnation; return g.Clients == 3 })
	leader.Freeze(t)
	defer leader.Thaw(t)
	gathererIs(t, other.Client(t), "g1", "online", func(g sdk.Gatherer) bool { return g.Incarnation == before && g.Clients == 3 })
}

// A gatherer that is silent for ten seconds is offline, and is known all the same.
func TestSilentGathererGoesOffline(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	access := mustRead(t, m.Access)
	registerSilent(t, letIn(t, access, "gatherer", "g1"), letIn(t, access, "replicator", "r1"))
	gathererIs(t, m.Client(t), "g1", "online", nil)
	gathererIs(t, m.Client(t), "g1", "offline", nil)
}

// A peer that is silent is absent, with when it was heard last, whichever manager is asked. One that stops is no longer expected. Callers that
// are no operators are not told who there is.
func TestStatusSaysWhoIsAway(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 2)
	leader := cluster.Leader(t)
	access := mustRead(t, leader.Access)
	registerSilent(t, letIn(t, access, "gatherer", "g1"), letIn(t, access, "replicator", "r1"))
	startGatherer(t, letIn(t, access, "gatherer", "g2"), "10.0.0.2:7420")
	newSite(t, access).replicator(t, "r2", "rack1").stop()
	gathererIs(t, leader.Client(t), "g1", "online", nil)
	heard := time.Now()
	for _, asked := range []*managertest.Process{leader, cluster.Follower(leader)} {
		client := asked.Client(t)
		eventually(t, time.Minute, asked.Dir+" says who is away", func() bool {
			status, err := client.Status(t.Context())
			away := status.Away
			return err == nil && len(away) == 2 && away[0].ID == "gatherer/g1" && away[1].ID == "replicator/r1" && away[0].Seen.Sub(heard).Abs() < 5*time.Second && away[1].Seen.Sub(heard).Abs() < 5*time.Second
		})
	}
	status, err := dial(t, letIn(t, access, "agent", "a1")).Status(t.Context())
	if err != nil || len(status.Away) != 0 {
		t.Errorf("an agent is told of %v, %v", status.Away, err)
	}
}

// registerSilent registers a gatherer and a replicator that say nothing more.
func registerSilent(t *testing.T, gatherer, replicator sdk.Config) {
	t.Helper()
	one, err := gatherv1.NewGathererServiceClient(managertest.Dial(t, gatherer)).Control(t.Context())
	if err == nil {
		err = one.Send(&gatherv1.ControlRequest{Message: &gatherv1.ControlRequest_Registration{
			Registration: &gatherv1.GathererRegistration{Addresses: []string{"10.0.0.1:7420"}},
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := replicav1.NewReplicatorServiceClient(managertest.Dial(t, replicator)).Control(t.Context())
	if err == nil {
		err = other.Send(&replicav1.ControlRequest{Message: &replicav1.ControlRequest_Registration{
			Registration: &replicav1.Registration{Node: "n1", Lans: []string{"rack1"}},
		}})
	}
	if err == nil {
		_, err = other.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
}
