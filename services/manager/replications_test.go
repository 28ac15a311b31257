package manager_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

const (
	isReceiving       = replicav1.ReplicaState_REPLICA_STATE_RECEIVING
	isCompleteReplica = replicav1.ReplicaState_REPLICA_STATE_COMPLETE
)

// The main way: begun, told to those that take part and to nobody else, reported, complete. The key is in no answer to operators.
func TestReplicationCompletes(t *testing.T) {
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	sender, one, two, none := s.replicator(t, "s", "rack1", "rack2"), s.replicator(t, "r1", "rack1"), s.replicator(t, "r2", "rack2"), s.replicator(t, "r3", "rack2")
	begun := s.begin(t, "r1,r2")
	if len(begun.Legs) != 2 || begun.Legs[0].Group == begun.Legs[1].Group || begun.Legs[1].Awaited != 1 || begun.ReplicaCount != 2 || begun.Sender != "s" {
		t.Errorf("it begins as %+v", begun)
	}
	duty := sender.has(t, begun.ID, "the sender", isTask)
	if send := duty.GetSend(); send.GetPath() != "/srv/disk.img" || len(send.GetLegs()) != 2 || len(duty.GetKey()) != 32 {
		t.Errorf("the sender is told %v", duty.GetSend())
	}
	for i, r := range []*replicator{one, two} {
		task := r.has(t, begun.ID, "a replica", isTask)
		if got := task.GetReceive(); got.GetLan() != begun.Legs[i].LAN || got.GetGroup() != begun.Legs[i].Group || !bytes.Equal(task.GetKey(), duty.GetKey()) {
			t.Errorf("%s is told %v", r.name, got)
		}
	}
	root := root(1)
	sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: megabyte, SentBytes: megabyte, Members: []*replicav1.SendMember{{Name: "r1", Lost: 0.25, Detached: true}}})
	one.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isReceiving, Bytes: megabyte / 2})
	s.becomes(t, begun.ID, "half received", func(r sdk.Replication) bool {
		replica := replicaOf(r, "r1")
		return r.Name == "disk.img" && r.SentBytes == megabyte && replica.Bytes == megabyte/2 && replica.State == sdk.ReplicaReceiving && replica.Detached && replica.Lost == 0.25
	})
	one.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isCompleteReplica, Bytes: megabyte, Root: root})
	two.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isCompleteReplica, Bytes: megabyte, ResumedBytes: 7, Root: root})
	sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: megabyte, SentBytes: megabyte, Root: root, Ended: true})
	ended := s.becomes(t, begun.ID, "complete", func(r sdk.Replication) bool { return r.State == sdk.ReplicationComplete })
	if ended.Complete != 2 || ended.Ended.IsZero() || ended.Reason != "" || !bytes.Equal(ended.Root, root) || replicaOf(ended, "r2").Resumed != 7 || replicaOf(ended, "r1").Elapsed <= 0 {
		t.Errorf("it ended as %+v", ended)
	}
	for _, r := range []*replicator{sender, one, two} {
		r.has(t, begun.ID, "without a task", isWithdrawn)
	}
	if told := none.task(begun.ID); told != nil {
		t.Errorf("who takes no part was told %v", told.GetDuty())
	}
	text, err := json.Marshal(ended)
	if err != nil || strings.Contains(string(text), base64.StdEncoding.EncodeToString(duty.GetKey())) {
		t.Errorf("operators are shown the key: %s, %v", text, err)
	}
	list, err := s.client.Replications(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Replicas) != 0 || list[0].Complete != 2 {
		t.Errorf("listed as %+v, %v", list, err)
	}
}

// Each replica is told a key for its own name, and the sender what these keys are derived from. The sender is told which replicas are of an
// earlier version, and prove nothing, until they say otherwise.
func TestReplicasProveTheirNames(t *testing.T) {
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	sender, one := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1")
	s.earlier = true
	two := s.replicator(t, "r2", "rack1")
	begun := s.begin(t, "r1,r2")
	duty := sender.has(t, begun.ID, "the sender", isTask)
	if got := duty.GetSend().GetUnproven(); len(got) != 1 || got[0] != "r2" || len(duty.GetSend().GetNameSecret()) != 32 || bytes.Equal(duty.GetSend().GetNameSecret(), duty.GetKey()) {
		t.Errorf("the sender is told of %v, with %d bytes", got, len(duty.GetSend().GetNameSecret()))
	}
	for _, r := range []*replicator{one, two} {
		task := r.has(t, begun.ID, "a replica", isTask)
		if !task.GetReceive().GetSenderProves() {
			t.Errorf("%s is not told that the sender proves that it is", r.name)
		}
		if got := task.GetReceive().GetNameKey(); !bytes.Equal(got, fast.NameKey(duty.GetSend().GetNameSecret(), r.name)) {
			t.Errorf("%s is told %d bytes, and not those of its name", r.name, len(got))
		}
	}
	s.earlier = false
	two.moves <- func(r *replicav1.Registration) { r.ProvesName = true } // to a manager that hears it, from one of an earlier version
	sender.has(t, begun.ID, "told that all prove their names", func(task *replicav1.Task) bool { return len(task.GetSend().GetUnproven()) == 0 })
}

// Nobody waits for a proof from a sender of an earlier version.
func TestSendersOfEarlierVersionsProveNothing(t *testing.T) {
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	s.earlier = true
	s.replicator(t, "s", "rack1")
	s.earlier = false
	one := s.replicator(t, "r1", "rack1")
	begun := s.begin(t, "r1")
	if task := one.has(t, begun.ID, "a replica", isTask); task.GetReceive().GetSenderProves() {
		t.Error("a replica is told that the sender proves that it is")
	}
}

// A replica that has failed, one whose replicator was stopped, and a cancellation are told apart.
func TestReplicationEndsOtherwise(t *testing.T) {
	m := managertest.Start(t)
	s := newSite(t, mustRead(t, m.Access))
	sender, one, two := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1"), s.replicator(t, "r2", "rack1")
	begun := s.begin(t, "role=worker")
	sender.has(t, begun.ID, "the sender", isTask)
	sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: 1, Root: root(1)})
	one.receives(&replicav1.ReceiveReport{
		Replication: begun.ID, State: replicav1.ReplicaState_REPLICA_STATE_FAILED, Reason: "no_room", Detail: strings.Repeat("x", 5000),
	})
	failed := s.becomes(t, begun.ID, "failed at one", func(r sdk.Replication) bool { return replicaOf(r, "r1").State == sdk.ReplicaFailed })
	if replica := replicaOf(failed, "r1"); replica.Reason != "no_room" || len(replica.Detail) > 1024 {
		t.Errorf("it failed as %s, with %d bytes", replica.Reason, len(replica.Detail))
	}
	two.stop()
	ended := s.becomes(t, begun.ID, "failed", func(r sdk.Replication) bool { return r.State == sdk.ReplicationFailed })
	if replicaOf(ended, "r2").Reason != "left" || ended.Failed != 2 {
		t.Errorf("it ended as %+v", ended)
	}

	begun = s.begin(t, "r1")
	canceled, err := s.client.CancelReplication(t.Context(), begun.ID[:8])
	if err != nil || canceled.State != sdk.ReplicationFailed || canceled.Reason != "canceled" || replicaOf(canceled, "r1").Reason != "canceled" {
		t.Errorf("canceled, it is %+v, %v", canceled, err)
	}
	again, err := s.client.CancelReplication(t.Context(), begun.ID)
	if err != nil || !again.Ended.Equal(canceled.Ended) {
		t.Errorf("canceled again, it is %+v, %v", again, err)
	}
	for name, want := range map[string]float64{"replications_started": 2, "replications_ended": 2, "replicas_ended": 3} {
		if got := gauge(t, m, "groupcast_manager_"+name+"_total"); got != want {
			t.Errorf("%g %s were counted, want %g", got, name, want)
		}
	}
	sender.has(t, begun.ID, "without a task", isWithdrawn)
}

// A sender that is another process by now does not come back. A replica that has all has it, and the others are told. The earlier process is
// fenced.
func TestReplicationLosesItsSender(t *testing.T) {
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	config := letIn(t, s.config, "replicator", "s")
	sender, one := s.register(t, "s", config, "rack1"), s.replicator(t, "r1", "rack1")
	begun := s.begin(t, "r1")
	one.has(t, begun.ID, "a replica", isTask)
	later := s.register(t, "s", config, "rack1")
	ended := s.becomes(t, begun.ID, "failed", func(r sdk.Replication) bool { return r.State == sdk.ReplicationFailed })
	if ended.Reason != "sender_lost" || replicaOf(ended, "r1").Reason != "sender_lost" || !strings.Contains(ended.Detail, "replicate again") {
		t.Errorf("it ended as %+v", ended)
	}
	if task := later.task(begun.ID); task != nil {
		t.Errorf("the later process was told %v", task.GetDuty())
	}
	var fenced *uplink.ReplicatorFenced
	if err := <-sender.ended; !errors.As(err, &fenced) {
		t.Errorf("the earlier process ended with %v", err)
	}
}

// Replicators that come to another LAN are on that LAN from then on. What they take part in goes on meanwhile.
func TestReplicationOfMachinesThatMove(t *testing.T) {
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	sender, one := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1")
	begun := s.begin(t, "r1")
	for _, r := range []*replicator{sender, one} {
		r.has(t, begun.ID, "told", isTask)
		r.moves <- func(r *replicav1.Registration) { r.Lans = []string{"rack2", "rack3"} }
	}
	eventually(t, 20*time.Second, "both are on other LANs", func() bool {
		all, err := s.client.Replicators(t.Context())
		return err == nil && len(all) == 2 && !slices.ContainsFunc(all, func(r sdk.Replicator) bool { return !slices.Equal(r.LANs, []string{"rack2", "rack3"}) })
	})
	root := root(1)
	one.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isCompleteReplica, Bytes: megabyte, Root: root})
	sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: megabyte, Root: root, Ended: true})
	s.becomes(t, begun.ID, "complete", func(r sdk.Replication) bool { return r.State == sdk.ReplicationComplete })
}

// However a replication ends while one LAN lags, replicas that have all are COMPLETE, and the others are told why they do not.
func TestReplicationEndsWhileOneLANLags(t *testing.T) {
	t.Parallel()
	for reason, end := range map[string]func(t *testing.T, s *site, sender *replicator, config sdk.Config, id string){
		"deadline": func(*testing.T, *site, *replicator, sdk.Config, string) {},
		"canceled": func(t *testing.T, s *site, _ *replicator, _ sdk.Config, id string) {
			if _, err := s.client.CancelReplication(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"sender_lost": func(t *testing.T, s *site, _ *replicator, config sdk.Config, _ string) {
			s.register(t, "s", config, "rack1", "rack2")
		},
	} {
		t.Run(reason, func(t *testing.T) {
			s := newSite(t, mustRead(t, managertest.Start(t).Access))
			config := letIn(t, s.config, "replicator", "s")
			sender, whole, behind := s.register(t, "s", config, "rack1", "rack2"), s.replicator(t, "r1", "rack1"), s.replicator(t, "r2", "rack2")
			spec := sdk.ReplicationSpec{SourceNode: "s", SourcePath: "/srv/disk.img", TargetPath: "/srv", Selector: "r1,r2"}
			if reason == "deadline" {
				spec.Deadline = 5 * time.Second
			}
			begun, err := s.client.Replicate(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			sender.has(t, begun.ID, "the sender", isTask)
			sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: megabyte, SentBytes: 5, Root: root(1)})
			behind.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isReceiving, Bytes: 5})
			s.becomes(t, begun.ID, "under way", func(r sdk.Replication) bool { return len(r.Root) > 0 && replicaOf(r, "r2").Bytes > 0 })
			whole.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isCompleteReplica, Bytes: megabyte, Root: root(1)})
			s.becomes(t, begun.ID, "complete at one", func(r sdk.Replication) bool { return replicaOf(r, "r1").State == sdk.ReplicaComplete })
			end(t, s, sender, config, begun.ID)
			ended := s.becomes(t, begun.ID, "ended", func(r sdk.Replication) bool { return r.State != sdk.ReplicationRunning })
			if one, other := replicaOf(ended, "r1"), replicaOf(ended, "r2"); one.State != sdk.ReplicaComplete || other.Reason != reason || ended.Reason != reason {
				t.Errorf("it ended as %+v", ended)
			}
		})
	}
}

// The replications that there are, their keys and their receipts survive the leader. How far everybody is, is reported again.
func TestReplicationSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 2)
	leader := cluster.Leader(t)
	s := newSite(t, cluster.Config())
	sender, one, two := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1"), s.replicator(t, "r2", "rack1")
	begun := s.begin(t, "r1,r2")
	before := two.has(t, begun.ID, "a replica", isTask)
	sender.sends(&replicav1.SendReport{Replication: begun.ID, Announcing: true, Name: "disk.img", Length: 5, Root: root(1)})
	one.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isCompleteReplica, Bytes: 5, Root: root(1)})
	s.becomes(t, begun.ID, "complete at one", func(r sdk.Replication) bool { return replicaOf(r, "r1").State == sdk.ReplicaComplete })
	if two := replicaOf(s.becomes(t, begun.ID, "as before", func(sdk.Replication) bool { return true }), "r2"); two.BytesUnknown {
		t.Error("of one that has said nothing since it began nobody knows that this is nothing")
	}
	leader.Kill()
	known := s.becomes(t, begun.ID, "known to the new leader", func(r sdk.Replication) bool {
		return replicaOf(r, "r1").State == sdk.ReplicaComplete && r.State == sdk.ReplicationRunning
	})
	if one, two := replicaOf(known, "r1"), replicaOf(known, "r2"); one.BytesUnknown || one.Bytes != 5 || !two.BytesUnknown || two.Bytes != 0 {
		t.Errorf("one has %d bytes (unknown: %v), and the other, which has said nothing so far, %d (%v)", one.Bytes, one.BytesUnknown, two.Bytes, two.BytesUnknown)
	}
	two.receives(&replicav1.ReceiveReport{Replication: begun.ID, State: isCompleteReplica, Bytes: 5, Root: root(1)})
	s.becomes(t, begun.ID, "complete", func(r sdk.Replication) bool {
		if task := two.task(begun.ID); task != nil && !bytes.Equal(task.GetKey(), before.GetKey()) {
			t.Error("under the new leader it has another key")
		}
		if replicaOf(r, "r2").State == sdk.ReplicaComplete && replicaOf(r, "r2").BytesUnknown {
			t.Error("nobody knows how much one has that has all")
		}
		return r.State == sdk.ReplicationComplete
	})
}

// A request that makes no sense is refused, with what is wrong. A repeated request has one effect.
func TestReplicationRefused(t *testing.T) {
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	good := func(by func(*sdk.ReplicationSpec)) sdk.ReplicationSpec {
		spec := sdk.ReplicationSpec{SourceNode: "s", SourcePath: "/srv/disk.img", TargetPath: "/srv", Selector: "*"}
		by(&spec)
		return spec
	}
	refused := func(want string, by func(*sdk.ReplicationSpec)) {
		t.Helper()
		if begun, err := s.client.Replicate(t.Context(), good(by)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v; want %q", begun, err, want)
		}
	}
	refused("no replicator has this name or runs on this node", func(*sdk.ReplicationSpec) {})
	sender := s.replicator(t, "s", "rack1")
	refused("no replicator is selected, other than the sender", func(*sdk.ReplicationSpec) {})
	s.replicator(t, "r1", "rack1")
	refused("spec.source_path", func(spec *sdk.ReplicationSpec) { spec.SourcePath = "disk.img" })
	refused("spec.target_path", func(spec *sdk.ReplicationSpec) { spec.TargetPath = "" })
	refused("spec.selector", func(spec *sdk.ReplicationSpec) { spec.Selector = "role=" })
	refused("spec.source_path", func(spec *sdk.ReplicationSpec) { spec.SourcePath = "/" + strings.Repeat("x", 5000) })
	refused("not one of pace, detach", func(spec *sdk.ReplicationSpec) { spec.Slow = sdk.Evict })
	refused("the LANs are rack1, the replicators r1, s", func(spec *sdk.ReplicationSpec) { spec.Selector = "lan=rack7" })
	refused(`there is no replicator "nobody"; the LANs are`, func(spec *sdk.ReplicationSpec) { spec.Selector = "nobody" })
	refused(`did you mean "r1"`, func(spec *sdk.ReplicationSpec) { spec.Selector = "r2" })

	api, ctx := replicav1.NewReplicationServiceClient(managertest.Dial(t, s.config)), t.Context()
	asked := &replicav1.CreateReplicationRequest{RequestId: "again", Spec: &replicav1.ReplicationSpec{
		SourceNode: "node-of-s", SourcePath: "/srv/disk.img", TargetPath: "/srv", Selector: "r1",
	}}
	first, err := api.CreateReplication(ctx, asked)
	if err != nil {
		t.Fatal(err)
	}
	second, err := api.CreateReplication(ctx, asked)
	if err != nil || second.GetReplication().GetId() != first.GetReplication().GetId() {
		t.Errorf("repeated, it is %v, %v", second, err)
	}
	if _, err := s.client.Replication(ctx, "0000"); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("one that there is not: %v", err)
	}
	sender.stop()
	<-sender.ended
	refused("no replicator has this name", func(*sdk.ReplicationSpec) {})
}

// What an operator asks for is told to those that do it.
func TestReplicationIsAsAskedFor(t *testing.T) {
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	sender, one := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1")
	spec := sdk.ReplicationSpec{
		SourceNode: "s", SourcePath: "/dev/vg0/golden", TargetPath: "/dev/sdb", Selector: "r1", Slow: sdk.Detach, MaxBytesPerSecond: 1e6,
		DeviceSerial: "WD-1234", SkipUnused: true,
	}
	begun, err := s.client.Replicate(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if begun.Spec != spec {
		t.Errorf("it is %+v, asked for was %+v", begun.Spec, spec)
	}
	send := sender.has(t, begun.ID, "the sender", isTask).GetSend()
	if send.GetSlow() != replicav1.SlowReplica_SLOW_REPLICA_DETACH || send.GetMaxBytesPerSecond() != 1e6 || !send.GetSkipUnused() {
		t.Errorf("the sender is told %v", send)
	}
	if receive := one.has(t, begun.ID, "a replica", isTask).GetReceive(); receive.GetPath() != "/dev/sdb" || receive.GetDeviceSerial() != "WD-1234" {
		t.Errorf("the replica is told %v", receive)
	}
}

// So many run at once, each on places of its own, and no more.
func TestReplicationsHaveTheirOwnPlaces(t *testing.T) {
	config := managertest.Config(t.TempDir())
	config.Replication.Groups = "239.195.7.0/25" // for 64 replications of one leg: collisions are sure to be drawn
	s := newSite(t, mustRead(t, managertest.Run(t, config).Access))
	s.replicator(t, "s", "rack1")
	s.replicator(t, "r1", "rack1")
	places := make(map[string]string)
	for i := range 64 {
		begun := s.begin(t, "r1")
		at := begun.Legs[0].Group
		if other := places[at]; other != "" || !strings.HasPrefix(at, "239.195.7.") {
			t.Errorf("replication %d is on %s, as %q is", i, at, other)
		}
		places[at] = begun.ID
	}
	_, err := s.client.Replicate(t.Context(), sdk.ReplicationSpec{SourceNode: "s", SourcePath: "/srv/disk.img", TargetPath: "/srv", Selector: "r1"})
	if err == nil || !strings.Contains(err.Error(), "wait for one to end") {
		t.Errorf("the 65th: %v", err)
	}
	replicators, err := s.client.Replicators(t.Context())
	if err != nil || len(replicators) != 2 || replicators[0].Replications != 64 || replicators[1].State != "online" || fmt.Sprint(replicators[0].LANs) != "[rack1]" {
		t.Errorf("the replicators are %+v, %v", replicators, err)
	}
}

// Nobody makes a group of a name that managers give to those in which session agents carry a replication: it would be deleted as one of these.
func TestNamesOfReplicationsGroupsAreKept(t *testing.T) {
	t.Parallel()
	client := managertest.Start(t).Client(t)
	for name, kept := range map[string]bool{"replication-" + strings.Repeat("0a", 16): true, "replication-plans": false, "replication-" + strings.Repeat("0", 31): false} {
		_, err := client.CreateGroup(t.Context(), name, sdk.Policy{})
		if isKept := sdk.CodeOf(err) == sdk.InvalidArgument; isKept != kept || !kept && err != nil {
			t.Errorf("%s: %v, want it kept: %t", name, err, kept)
		}
	}
}
