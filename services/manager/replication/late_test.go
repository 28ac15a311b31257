package replication

import (
	"testing"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// A replicator takes part if it is selected, online, and in a LAN where a replica that hears the sender is still waited for. A replicator that
// has a part, or had one, gets none again.
func TestLatecomers(t *testing.T) {
	const (
		waiting  = replicav1.ReplicaState_REPLICA_STATE_WAITING
		complete = replicav1.ReplicaState_REPLICA_STATE_COMPLETE
	)
	all := []*replicav1.Replicator{{Name: "sender", Lans: []string{"rack1", "rack2", "rack3"}, Labels: map[string]string{"role": "worker"}}}
	for name, lan := range map[string]string{"known": "rack1", "left": "rack1", "late": "rack1", "offline": "rack1", "done": "rack2", "far": "rack3", "none": "rack4"} {
		all = append(all, &replicav1.Replicator{Name: name, Lans: []string{lan}, Labels: map[string]string{"role": "worker"}})
	}
	all = append(all, &replicav1.Replicator{Name: "another", Lans: []string{"rack1"}, Labels: map[string]string{"role": "store"}})
	record := func(selector string) *replicav1.Replication {
		return &replicav1.Replication{
			Sender: "sender", Spec: &replicav1.ReplicationSpec{Selector: selector},
			Replicas: []*replicav1.Replica{
				{Name: "known", Lan: "rack1", State: waiting},
				{Name: "left", Lan: "rack1", State: replicav1.ReplicaState_REPLICA_STATE_FAILED},
				{Name: "first", Lan: "rack2", State: complete},
				{Name: "unheard", Lan: "rack3", State: waiting, OverAgents: true},
			},
		}
	}
	online := func(name string) bool { return name != "offline" }
	for selector, want := range map[string][]string{"role=worker": {"late"}, "*": {"late", "another"}, "lan=rack1,role=worker": {"late"}, "known,left": nil, "lan=rack2": nil} {
		late := latecomers(record(selector), all, online)
		if len(late) != len(want) {
			t.Errorf("%s: late are %v, want %v", selector, late, want)
			continue
		}
		for i, one := range late {
			if one.GetName() != want[i] || one.GetLan() != "rack1" || one.GetState() != waiting {
				t.Errorf("%s: late is %v, want %s", selector, one, want[i])
			}
		}
	}
}
