package manager_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// What multicast does not bring to a replica, session agents do. Sender and replica are told of a group, which only those two may join, each as
// itself, and which goes with the replication.
func TestReplicationGoesOverAgents(t *testing.T) {
	t.Parallel()
	access := mustRead(t, managertest.Start(t).Access)
	newParty(t, access, nil).agent(t, "agent-1", "node-1", "")
	s := newSite(t, access)
	sender, one := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1")
	configs := map[string]sdk.Config{"r2": letIn(t, access, "replicator", "r2"), "s": letIn(t, access, "replicator", "s")}
	two := s.register(t, "r2", configs["r2"], "rack1")
	begun := s.begin(t, "r1,r2")
	sender.has(t, begun.ID, "the sender", isTask)
	sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: 5})
	one.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isReceiving})
	two.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: replicav1.ReplicaState_REPLICA_STATE_WAITING, Bytes: 3})
	isDelivered := func(task *replicav1.Task) bool {
		return task.GetSend().GetDeliveryGroup() != "" || task.GetReceive().GetDeliveryGroup() != ""
	}
	group := two.has(t, begun.ID, "a member of a group", isDelivered).GetReceive().GetDeliveryGroup()
	told := sender.has(t, begun.ID, "a member of a group", isDelivered).GetSend()
	if told.GetDeliveryGroup() != group || len(told.GetDeliverTo()) != 1 || told.GetDeliverTo()[0] != "r2" || isDelivered(one.task(begun.ID)) {
		t.Errorf("the sender is told %v, who hears it %v", told, one.task(begun.ID))
	}
	for _, tt := range []struct {
		as, name, group string
		denied          bool
	}{
		{"r2", "r2", group, false},
		{"s", "s", group, false},
		{"r2", "s", group, true},
		{"r2", "r2", partyGroup, true},
		{"r1", "r1", group, true},
	} {
		config, known := configs[tt.as]
		if !known {
			config = letIn(t, access, "replicator", tt.as)
		}
		_, err := dial(t, config).Join(t.Context(), sdk.Join{Group: tt.group, Name: tt.name})
		if denied := sdk.CodeOf(err) == sdk.Forbidden; denied != tt.denied || !denied && err != nil {
			t.Errorf("%s joins %s as %s: %v", tt.as, tt.group, tt.name, err)
		}
	}
	replica, everybody := dial(t, configs["r2"]), dial(t, letIn(t, access, "member", "m", "*"))
	session, err := replica.Join(t.Context(), sdk.Join{Group: group, Name: "r2"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.SendStream(t.Context(), strings.NewReader("x"), sdk.SendOptions{Name: "x"}); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("a replica delivers to the others: %v", err)
	}
	if _, err := everybody.Join(t.Context(), sdk.Join{Group: group, Name: "m"}); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("a member of all groups joins the replicas': %v", err)
	}
	wantHidden(t, s.client, configs["s"], everybody, group)
	// What multicast has brought is not forgotten when agents have yet to bring more.
	two.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isReceiving})
	var it sdk.Replica
	eventually(t, 30*time.Second, "it is known to receive", func() bool {
		known, err := s.client.Replication(t.Context(), begun.ID)
		if err != nil {
			t.Fatal(err)
		}
		it = known.Replicas[slices.IndexFunc(known.Replicas, func(r sdk.Replica) bool { return r.Name == "r2" })]
		return it.State == sdk.ReplicaReceiving
	})
	if it.Bytes != 3 {
		t.Errorf("it has %d bytes, and had 3", it.Bytes)
	}
	if _, err := s.client.CancelReplication(t.Context(), begun.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the group is gone", func() bool {
		_, err := s.client.Group(t.Context(), group)
		return sdk.CodeOf(err) == sdk.NotFound
	})
}

// wantHidden has a replication's sender deliver in its group, and checks that a member that may use all groups is shown nothing of that: neither by
// the id's beginning, nor in the list of all groups, where an operator sees it.
func wantHidden(t *testing.T, operator *sdk.Client, sender sdk.Config, member *sdk.Client, group string) {
	t.Helper()
	session, err := dial(t, sender).Join(t.Context(), sdk.Join{Group: group, Name: "s", Roles: []sdk.Role{sdk.Send}})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := session.SendStream(t.Context(), strings.NewReader("x"), sdk.SendOptions{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := operator.Deliveries(t.Context(), ""); err != nil || len(all) != 1 || all[0].ID != sent.ID() {
		t.Errorf("an operator sees %v, %v, want the delivery", all, err)
	}
	if all, err := member.Deliveries(t.Context(), ""); err != nil || len(all) != 0 {
		t.Errorf("a member of all groups sees %v, %v, want none", all, err)
	}
	if _, err := member.Delivery(t.Context(), sent.ID()[:8]); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("a member of all groups asks for the delivery: %v, want that there is none", err)
	}
}

// Session agents carry a stream as long as one of the replicas to which they carry it has a block device at the target path, wherever that is.
// They do so also beside a replica that has a directory there, which gets its own when the device has it.
func TestReplicationGoesOverAgentsOntoDevices(t *testing.T) {
	t.Parallel()
	access := mustRead(t, managertest.Start(t).Access)
	newParty(t, access, nil).agent(t, "agent-1", "node-1", "")
	s := newSite(t, access)
	sender, directory := s.replicator(t, "s", "rack1"), s.replicator(t, "directory", "rack1")
	s.devices = []string{"/volumes/data"}
	device := s.replicator(t, "device", "rack1")
	begun, err := s.client.Replicate(t.Context(), sdk.ReplicationSpec{SourceNode: "s", SourcePath: "/srv/disk.img", TargetPath: "/volumes/../volumes/data", Selector: "directory,device"})
	if err != nil {
		t.Fatal(err)
	}
	receiving := &replicav1.ReceiveReport{Replication: begun.ID, State: isReceiving}
	sender.has(t, begun.ID, "the sender", isTask)
	sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: 5, Root: make([]byte, 32)})
	device.receives(receiving)
	directory.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: replicav1.ReplicaState_REPLICA_STATE_WAITING})
	told := sender.has(t, begun.ID, "a delivery to the directory", func(task *replicav1.Task) bool { return len(task.GetSend().GetDeliverTo()) == 1 }).GetSend()
	if told.GetDeliverStream() {
		t.Error("a stream is to go to a directory, for another replica that hears the sender has a device")
	}
	device.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isReceiving, Unheard: true})
	sender.has(t, begun.ID, "a stream to both", func(task *replicav1.Task) bool {
		return len(task.GetSend().GetDeliverTo()) == 2 && task.GetSend().GetDeliverStream()
	})
	device.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: replicav1.ReplicaState_REPLICA_STATE_COMPLETE, Root: make([]byte, 32)})
	sender.has(t, begun.ID, "no stream to the directory", func(task *replicav1.Task) bool { return !task.GetSend().GetDeliverStream() })
}
