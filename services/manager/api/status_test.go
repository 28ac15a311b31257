package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/api"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/serviceaccount"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// follows is a manager that does not lead, and has no connection to the leader unless one is given.
type follows struct {
	api.Leading
	leader     store.Leader
	connection *grpc.ClientConn
}

func (f follows) Leader() store.Leader          { return f.leader }
func (follows) Registry() *group.Registry       { return nil }
func (follows) Replications() *replication.Desk { return nil }
func (f follows) Connection() *grpc.ClientConn  { return f.connection }

// managerServer is the service, of those of a server, that tells of the managers.
type managerServer struct{ groupv1.ManagerServiceServer }

func (m *managerServer) RegisterService(_ *grpc.ServiceDesc, service any) {
	if found, is := service.(groupv1.ManagerServiceServer); is {
		m.ManagerServiceServer = found
	}
}

// statusOf returns the status of a manager that has just begun.
func statusOf(t *testing.T, accounts *serviceaccount.Reviewer, leader store.Leader) *groupv1.GetStatusResponse {
	t.Helper()
	server := &api.Server{
		Name: "m1", View: view.New(nil, slog.New(slog.DiscardHandler)), Leading: follows{leader: leader}, ServiceAccounts: accounts, WriteRefusal: func() error { return nil },
	}
	var found managerServer
	server.Register(&found)
	status, err := found.GetStatus(t.Context(), &groupv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// A manager knows whom it is to let in, and says which of them are not here. A manager outside of Kubernetes expects nobody.
func TestStatusSaysWhoIsAbsent(t *testing.T) {
	accounts := map[string]identity.Role{"gc/a": identity.Agent, "gc/g": identity.Gatherer}
	want := []string{
		"no agent is here, though pods of ServiceAccount gc/a are to be: kubectl -n gc get ds,sts,pods,pvc,events says why, or their logs do",
		"no gatherer is here, though pods of ServiceAccount gc/g are to be: kubectl -n gc get ds,sts,pods,pvc,events says why, or their logs do",
	}
	if diff := cmp.Diff(want, statusOf(t, serviceaccount.New(nil, "groupcast", accounts), store.Leader{}).GetAbsent()); diff != "" {
		t.Error(diff)
	}
	if said := statusOf(t, nil, store.Leader{}).GetAbsent(); len(said) > 0 {
		t.Errorf("without Kubernetes: %q", said)
	}
}

// Agents that are online, and gatherers and replicators that are not silent, are here, and so not absent.
func TestWhoIsHereIsNotAbsent(t *testing.T) {
	accounts := map[string]identity.Role{"gc/a": identity.Agent, "gc/g": identity.Gatherer, "gc/r": identity.Replicator}
	for counts, want := range map[view.Counts]int{
		{}:                             3,
		{AgentsOffline: 1}:             3,
		{AgentsOnline: 1}:              2,
		{Gatherers: 1, Replicators: 1}: 1,
		{AgentsOnline: 1, Gatherers: 1, Replicators: 2}: 0,
	} {
		if said := api.Absent(accounts, counts, nil); len(said) != want {
			t.Errorf("with %+v: %q, want %d", counts, said, want)
		}
	}
	away := []*groupv1.Away{{Id: "gatherer/g1"}, {Id: "replicator/r1"}}
	said := api.Absent(accounts, view.Counts{AgentsOnline: 1, Gatherers: 1, Replicators: 2}, away)
	if len(said) != 1 || !strings.HasPrefix(said[0], "no gatherer is here") {
		t.Errorf("with the one gatherer silent and one of two replicators: %q", said)
	}
}

// Where nobody leads nothing is written.
func TestStatusSaysThatNobodyLeads(t *testing.T) {
	for leader, leads := range map[string]bool{"": false, "m2": true} {
		status := statusOf(t, nil, store.Leader{Candidate: store.Candidate{Name: leader}, Term: 3})
		if status.GetLeader() != leader || (status.GetReadOnlyReason() == "") != leads {
			t.Errorf("where %q leads: %q leads, %q", leader, status.GetLeader(), status.GetReadOnlyReason())
		}
	}
}

// says is a leader that answers with a status.
type says struct {
	groupv1.UnimplementedManagerServiceServer
	status *groupv1.GetStatusResponse
}

func (s says) GetStatus(context.Context, *groupv1.GetStatusRequest) (*groupv1.GetStatusResponse, error) {
	return s.status, nil
}

// leaderThat returns a connection to a leader that answers so.
func leaderThat(t *testing.T, status *groupv1.GetStatusResponse) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	groupv1.RegisterManagerServiceServer(server, says{status: status})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		connection.Close()
		server.Stop()
		serving.Wait()
	})
	return connection
}

// Of several managers, each has the disk of its own, and the one that leads writes: whether writes are refused depends on its disk. Another
// one whose disk is full says so of itself. If the leader does not answer, what this manager knows is all that can be told.
func TestWritesAreRefusedByTheLeadersDisk(t *testing.T) {
	full := fmt.Errorf("%w: 3 MiB are free", store.ErrFull)
	for name, c := range map[string]struct {
		own              error
		leaders          *grpc.ClientConn
		refused, ofItOwn string
	}{
		"the leader's is full":              {nil, leaderThat(t, &groupv1.GetStatusResponse{ReadOnlyReason: "no room there"}), "no room there", ""},
		"both are full":                     {full, leaderThat(t, &groupv1.GetStatusResponse{ReadOnlyReason: "no room there"}), "no room there", ""},
		"another's is full":                 {full, leaderThat(t, new(groupv1.GetStatusResponse)), "", full.Error()},
		"none is full":                      {nil, leaderThat(t, new(groupv1.GetStatusResponse)), "", ""},
		"full, and the leader is not there": {full, nil, full.Error(), ""},
	} {
		server := &api.Server{
			Name: "m1", View: view.New(nil, slog.New(slog.DiscardHandler)), WriteRefusal: func() error { return c.own },
			Leading: follows{leader: store.Leader{Candidate: store.Candidate{Name: "m2"}, Term: 3}, connection: c.leaders},
		}
		var found managerServer
		server.Register(&found)
		status, err := found.GetStatus(peer.NewContext(t.Context(), new(peer.Peer)), new(groupv1.GetStatusRequest))
		if err != nil {
			t.Fatal(err)
		}
		if status.GetReadOnlyReason() != c.refused || status.GetOwnStoreReason() != c.ofItOwn {
			t.Errorf("%s: writes are refused for %q, want %q; of itself it says %q, want %q",
				name, status.GetReadOnlyReason(), c.refused, status.GetOwnStoreReason(), c.ofItOwn)
		}
	}
}

// A peer that stopped while another manager began to lead is not missed if no pods of its kind should be here any more.
func TestWhoIsToBeIsMissed(t *testing.T) {
	seen := timestamppb.Now()
	only := map[string]identity.Role{"gc/a": identity.Agent}
	both := map[string]identity.Role{"gc/a": identity.Agent, "gc/g": identity.Gatherer}
	for _, c := range []struct {
		name     string
		seen     *timestamppb.Timestamp
		accounts map[string]identity.Role
		missed   bool
	}{
		{"silent under this leader", seen, only, true},
		{"silent before, its pods are to be", nil, both, true},
		{"silent before, its pods are not to be", nil, only, false},
		{"silent before, outside Kubernetes", nil, nil, true},
	} {
		if got := api.IsMissed(&groupv1.Away{Id: "gatherer/g", SeenTime: c.seen}, c.accounts); got != c.missed {
			t.Errorf("%s: missed %v, want %v", c.name, got, c.missed)
		}
	}
}

// A manager knows of which kinds pods should be here, whether or not any is. One that is in no Kubernetes, or lets in only members, expects
// none.
func TestExpectsWhomItLetsIn(t *testing.T) {
	for name, tt := range map[string]struct {
		accounts *serviceaccount.Reviewer
		want     bool
	}{
		"with agents":    {serviceaccount.New(nil, "groupcast", map[string]identity.Role{"gc/a": identity.Agent, "gc/g": identity.Gatherer}), true},
		"without agents": {serviceaccount.New(nil, "groupcast", map[string]identity.Role{"gc/g": identity.Gatherer, "training/m": identity.Member}), false},
		"no Kubernetes":  {nil, false},
	} {
		if got := (&api.Server{ServiceAccounts: tt.accounts}).Expects(identity.Agent); got != tt.want {
			t.Errorf("%s: agents are expected: %v", name, got)
		}
	}
}
