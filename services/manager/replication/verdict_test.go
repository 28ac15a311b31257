package replication

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// A replication that has ended has no keys any more: whoever reads the store later reads no replication with them.
func TestEndedHasNoKey(t *testing.T) {
	d := &Desk{progress: make(map[string]*progress), presences: make(map[string]*presence)}
	record := &managerv1.ReplicationRecord{Key: []byte("key"), NameSecret: []byte("names"), Replication: &replicav1.Replication{
		Id: "1", Replicas: []*replicav1.Replica{{Name: "a"}, {Name: "b"}},
	}}
	complete := outcome{state: replicav1.ReplicaState_REPLICA_STATE_COMPLETE}
	d.apply(record, verdict{outcomes: map[string]outcome{"a": complete}}, after(1))
	if string(record.GetKey()) != "key" || string(record.GetNameSecret()) != "names" || record.GetReplication().GetEndTime() != nil {
		t.Errorf("while it runs it is %v", record.GetReplication())
	}
	d.apply(record, verdict{outcomes: map[string]outcome{"b": failed(Slow, "")}, ended: true}, after(2))
	r := record.GetReplication()
	if len(record.GetKey())+len(record.GetNameSecret()) != 0 || r.GetState() != replicav1.ReplicationState_REPLICATION_STATE_PARTIAL || r.GetCompleteCount() != 1 || r.GetFailedCount() != 1 {
		t.Errorf("ended, it is %v with %d and %d bytes of keys", r, len(record.GetKey()), len(record.GetNameSecret()))
	}
}

// How long a replica needed is what it says itself. For a replica of an earlier version, and for one that says what makes no sense, it is the
// time until its outcome is known.
func TestElapsedIsWhatAReplicaSays(t *testing.T) {
	d := &Desk{progress: make(map[string]*progress), presences: make(map[string]*presence)}
	for want, said := range map[time.Duration]*replicav1.ReceiveReport{
		7 * time.Second:  {Elapsed: durationpb.New(7 * time.Second)},
		20 * time.Second: {},
		21 * time.Second: {Elapsed: durationpb.New(-time.Second)},
		22 * time.Second: {Elapsed: &durationpb.Duration{Seconds: 1, Nanos: -1}},
		23 * time.Second: nil,
	} {
		if said != nil {
			said.State = replicav1.ReplicaState_REPLICA_STATE_COMPLETE
			said = heardReceiving(said)
		}
		d.of("1").receiving["a"] = said
		replica := &replicav1.Replica{Name: "a"}
		known := after(max(want, 20*time.Second).Seconds())
		d.receipt(&replicav1.Replication{Id: "1", CreateTime: timestamppb.New(after(0))}, replica, outcome{state: replicav1.ReplicaState_REPLICA_STATE_COMPLETE}, known)
		if got := replica.GetElapsed().AsDuration(); got != want {
			t.Errorf("said %v, it needed %v, want %v", said, got, want)
		}
	}
}

// A replica is unknown since its last word, not since its stream was given up for want of another.
func TestUnknownSinceTheLastWord(t *testing.T) {
	d := &Desk{progress: make(map[string]*progress), presences: map[string]*presence{"a": {heard: after(1), since: after(9)}}}
	unknown := outcome{state: replicav1.ReplicaState_REPLICA_STATE_UNKNOWN}
	written, shown := &replicav1.Replica{Name: "a"}, &replicav1.Replica{Name: "a"}
	d.receipt(&replicav1.Replication{Id: "1"}, written, unknown, after(20))
	d.addProgress(shown, new(progress))
	for what, replica := range map[string]*replicav1.Replica{"written": written, "shown": shown} {
		if got := replica.GetChangeTime().AsTime(); !got.Equal(after(1)) {
			t.Errorf("it is %s as unknown since %v, want %v", what, got, after(1))
		}
	}
}

// All have it, and the sender has not said yet how much that took: it has a second to say so. A sender that is away has nothing to say.
func TestSenderHasTheLastWord(t *testing.T) {
	d := &Desk{progress: make(map[string]*progress), presences: make(map[string]*presence)}
	for _, c := range []struct {
		at     float64
		sender senderFacts
		want   bool
	}{
		{at: 1, want: true},
		{at: 1, sender: senderFacts{ended: after(1)}},
		{at: 1, sender: senderFacts{away: after(1)}},
		{at: 1, sender: senderFacts{gone: true}},
		{at: 2},
	} {
		if got := d.awaitsLastWord("1", facts{now: after(c.at), sender: c.sender}); got != c.want {
			t.Errorf("after %v s, with %+v: %v", c.at, c.sender, got)
		}
	}
}
