package replication

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/ledger/ledgertest"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// someID is a replication's.
const someID = "00000000000000000000000000000001"

// leading returns the desk of a manager that leads, of which nothing runs by time, with a replication from s to a and b.
func leading(t *testing.T) (*Desk, view.Replication) {
	t.Helper()
	written, state, shown := ledgertest.Leading(t)
	d := newDesk()
	d.ledger, d.store, d.view = written, state, shown
	for _, name := range []string{"s", "a", "b"} {
		d.put(t, view.ReplicatorKey(name), &replicav1.Replicator{Name: name, Incarnation: 1})
	}
	d.put(t, view.ReplicationKey(someID), &managerv1.ReplicationRecord{SenderIncarnation: 1, Replication: &replicav1.Replication{
		Id: someID, Sender: "s", State: replicav1.ReplicationState_REPLICATION_STATE_RUNNING,
		Replicas: []*replicav1.Replica{{Name: "a", State: isWaiting}, {Name: "b", State: isWaiting}},
	}})
	r, found := shown.Replication(someID)
	if !found {
		t.Fatal("there is no replication")
	}
	return d, r
}

// put stores a record as it is.
func (d *Desk) put(t *testing.T, key string, record proto.Message) {
	t.Helper()
	encoded, err := proto.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	at, err := d.store.Commit(t.Context(), d.ledger.Term(), nil, []store.Op{store.Put(key, encoded)})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.view.Await(t.Context(), at); err != nil {
		t.Fatal(err)
	}
}

const (
	isWaiting   = replicav1.ReplicaState_REPLICA_STATE_WAITING
	isReceiving = replicav1.ReplicaState_REPLICA_STATE_RECEIVING
)

// A manager that is cut off loses the streams of all, and multicast goes on without it: that neither the sender nor a replica is
// heard of counts from when it could be.
func TestNobodyIsLostWhileTheManagerIsCutOff(t *testing.T) {
	d, r := leading(t)
	for _, name := range []string{"a", "b"} {
		d.Attach(name, 1).Report(&replicav1.Report{Receiving: []*replicav1.ReceiveReport{{Replication: someID, State: isReceiving}}})
	}
	d.Attach("s", 1).Report(&replicav1.Report{Sending: []*replicav1.SendReport{{Replication: someID, Announcing: true}}})
	for _, p := range d.presences {
		p.attachment.Close()
	}
	long := time.Now().Add(100 * time.Second)
	if v := decide(d.facts(r, long)); !v.ended || v.reason != SenderLost {
		t.Fatalf("where the manager hears others, it is %+v", v)
	}
	d.hearing = &hears{cutOff: long}
	if v := decide(d.facts(r, long)); v.ended || len(v.outcomes) > 0 {
		t.Errorf("while the manager is cut off, it is %+v", v)
	}
	if v := decide(d.facts(r, long.Add(senderPatience-time.Second))); v.ended || len(v.outcomes) > 0 {
		t.Errorf("when it has been able to hear for less than %v, it is %+v", senderPatience, v)
	}
	if v := decide(d.facts(r, long.Add(senderPatience))); !v.ended {
		t.Errorf("when it has been able to hear for %v, it is %+v", senderPatience, v)
	}
}
