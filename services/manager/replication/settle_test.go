package replication

import (
	"testing"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// What has ended has no key any more: who reads the store later reads no replication with it.
func TestEndedHasNoKey(t *testing.T) {
	d := &Desk{progress: make(map[string]*progress), presences: make(map[string]*presence)}
	record := &managerv1.ReplicationRecord{Key: []byte("key"), Replication: &replicav1.Replication{
		Id: "1", Replicas: []*replicav1.Replica{{Name: "a"}, {Name: "b"}},
	}}
	complete := outcome{state: replicav1.ReplicaState_REPLICA_STATE_COMPLETE}
	d.apply(record, verdict{outcomes: map[string]outcome{"a": complete}}, after(1))
	if string(record.GetKey()) != "key" || record.GetReplication().GetEndTime() != nil {
		t.Errorf("while it runs it is %v", record.GetReplication())
	}
	d.apply(record, verdict{outcomes: map[string]outcome{"b": failed(Slow, "")}, ended: true}, after(2))
	r := record.GetReplication()
	if len(record.GetKey()) != 0 || r.GetState() != replicav1.ReplicationState_REPLICATION_STATE_PARTIAL || r.GetCompleteCount() != 1 || r.GetFailedCount() != 1 {
		t.Errorf("ended, it is %v with %d bytes of key", r, len(record.GetKey()))
	}
}
