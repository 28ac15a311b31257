package replication

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// Each replica and each replication counts once, when it ends; a reason that nobody knows has no series.
func TestEndsAreCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	const (
		waiting  = replicav1.ReplicaState_REPLICA_STATE_WAITING
		complete = replicav1.ReplicaState_REPLICA_STATE_COMPLETE
		isFailed = replicav1.ReplicaState_REPLICA_STATE_FAILED
		unknown  = replicav1.ReplicaState_REPLICA_STATE_UNKNOWN
	)
	record := func(state replicav1.ReplicationState, replicas ...*replicav1.Replica) *replicav1.Replication {
		return &replicav1.Replication{State: state, Replicas: replicas}
	}
	running, partial := replicav1.ReplicationState_REPLICATION_STATE_RUNNING, replicav1.ReplicationState_REPLICATION_STATE_PARTIAL
	a := &replicav1.Replica{Name: "a", State: complete}
	b := &replicav1.Replica{Name: "b", State: isFailed, Reason: SessionLost}
	c := &replicav1.Replica{Name: "c", State: isFailed, Reason: "of another version"}
	e := &replicav1.Replica{Name: "e", State: isFailed, Reason: Damaged} // an alert is on these
	steps := []*replicav1.Replication{
		record(running, &replicav1.Replica{Name: "a", State: waiting}, &replicav1.Replica{Name: "b", State: waiting}),
		record(running, a, &replicav1.Replica{Name: "b", State: waiting}),
		record(running, a, b, &replicav1.Replica{Name: "d", State: waiting}),
		record(partial, a, b, c, &replicav1.Replica{Name: "d", State: unknown}, e),
		record(partial, a, b, c, &replicav1.Replica{Name: "d", State: unknown}, e),
	}
	for i := range steps[1:] {
		m.changed(steps[i], steps[i+1])
	}
	m.changed(nil, nil) // a cancellation that ended nothing
	got := make(map[string]float64)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			if value := metric.GetCounter().GetValue(); value > 0 {
				got[name] = value
			}
		}
	}
	want := map[string]float64{
		"groupcast_manager_replications_ended_total partial":         1,
		"groupcast_manager_replicas_ended_total  complete":           1,
		"groupcast_manager_replicas_ended_total session_lost failed": 1,
		"groupcast_manager_replicas_ended_total damaged failed":      1,
		"groupcast_manager_replicas_ended_total  failed":             1,
		"groupcast_manager_replicas_ended_total  unknown":            1,
	}
	if len(got) != len(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	for name, count := range want {
		if got[name] != count {
			t.Errorf("%s is %g, want %g", name, got[name], count)
		}
	}
}
