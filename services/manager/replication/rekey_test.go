package replication

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// reliability D 9: a replica whose identity is revoked is put out once, and another key is due for that, one a second at most.
func TestRevokedHaveAnotherKeyMade(t *testing.T) {
	record := new(managerv1.ReplicationRecord)
	revoked := func(names ...string) (f facts) {
		for _, name := range []string{"a", "b", "c"} {
			f.replicas = append(f.replicas, replicaFacts{name: name, putOut: slices.Contains(names, name)})
		}
		return f
	}
	if out := putOut(record, revoked()); len(out) > 0 || isKeyDue(record, after(0)) {
		t.Errorf("nobody is revoked, and %v are put out", out)
	}
	if out := putOut(record, revoked("a")); !slices.Equal(out, []string{"a"}) || !isKeyDue(record, after(1)) {
		t.Errorf("put out are %v", out)
	}
	record.KeyIsDue, record.KeyTime = false, timestamppb.New(after(1))
	if out := putOut(record, revoked("a")); len(out) > 0 || isKeyDue(record, after(9)) {
		t.Errorf("put out again are %v", out)
	}
	putOut(record, revoked("a", "b"))
	putOut(record, revoked("a", "b", "c"))
	if !slices.Equal(record.GetPutOut(), []string{"a", "b", "c"}) {
		t.Errorf("put out are %v", record.GetPutOut())
	}
	for _, tt := range []struct {
		at   time.Time
		want bool
	}{{after(1.9), false}, {after(2), true}, {after(0.5), true}} {
		if got := isKeyDue(record, tt.at); got != tt.want {
			t.Errorf("at %v it is due: %v", tt.at, got)
		}
	}
}

// The sender is told that all know a key when all replicas that hear it have said so: not those that are complete or have failed, nor those to
// which session agents carry it.
func TestWhoseWordIsWaitedFor(t *testing.T) {
	const waiting, complete = replicav1.ReplicaState_REPLICA_STATE_WAITING, replicav1.ReplicaState_REPLICA_STATE_COMPLETE
	d := &Desk{progress: make(map[string]*progress)}
	record := &managerv1.ReplicationRecord{KeyNumber: 2, Replication: &replicav1.Replication{Id: "1", Replicas: []*replicav1.Replica{
		{Name: "a", State: waiting},
		{Name: "b", State: waiting},
		{Name: "c", State: complete},
		{Name: "d", State: replicav1.ReplicaState_REPLICA_STATE_FAILED},
		{Name: "e", State: waiting, OverAgents: true},
	}}}
	says := func(name string, number uint32) {
		d.of("1").receiving[name] = &replicav1.ReceiveReport{KeyNumber: number}
	}
	says("a", 2)
	if d.isKeyKnown(record) {
		t.Error("one has said nothing")
	}
	says("b", 1)
	if d.isKeyKnown(record) {
		t.Error("one has the key before")
	}
	says("b", 2)
	if !d.isKeyKnown(record) {
		t.Error("all have it")
	}
}
