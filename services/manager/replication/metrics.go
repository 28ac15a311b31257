package replication

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// Metrics count what desks decide. They outlive terms.
type Metrics struct {
	started  prometheus.Counter
	ended    *prometheus.CounterVec
	replicas *prometheus.CounterVec
}

// The words of states, as labels.
var (
	endedStates = map[replicav1.ReplicationState]string{
		replicav1.ReplicationState_REPLICATION_STATE_COMPLETE: "complete",
		replicav1.ReplicationState_REPLICATION_STATE_PARTIAL:  "partial",
		replicav1.ReplicationState_REPLICATION_STATE_FAILED:   "failed",
	}
	replicaStates = map[replicav1.ReplicaState]string{
		replicav1.ReplicaState_REPLICA_STATE_COMPLETE: "complete",
		replicav1.ReplicaState_REPLICA_STATE_FAILED:   "failed",
		replicav1.ReplicaState_REPLICA_STATE_UNKNOWN:  "unknown",
	}
)

// NewMetrics returns metrics, each with all the series that it can have, so that a
// rate can be taken from the first event on.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		started: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "groupcast_manager_replications_started_total", Help: "Replications that began while this manager led.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_manager_replications_ended_total", Help: "Replications that ended while this manager led, by state: complete, partial or failed.",
		}, []string{"state"}),
		replicas: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_manager_replicas_ended_total", Help: "Replicas that ended while this manager led, by state (complete, failed, unknown) and reason.",
		}, []string{"state", "reason"}),
	}
	for _, state := range endedStates {
		m.ended.WithLabelValues(state)
	}
	for _, reason := range reasons {
		m.replicas.WithLabelValues("failed", reason)
	}
	m.replicas.WithLabelValues("complete", "")
	m.replicas.WithLabelValues("unknown", "")
	registry.MustRegister(m.started, m.ended, m.replicas)
	return m
}

// changed counts what has ended from one record of a replication to the next.
func (m *Metrics) changed(before, after *replicav1.Replication) {
	earlier := make(map[string]replicav1.ReplicaState)
	for _, replica := range before.GetReplicas() {
		earlier[replica.GetName()] = replica.GetState()
	}
	for _, replica := range after.GetReplicas() {
		state, isEnded := replicaStates[replica.GetState()]
		if !isEnded || earlier[replica.GetName()] == replica.GetState() {
			continue
		}
		reason := replica.GetReason()
		if !slices.Contains(reasons, reason) {
			reason = ""
		}
		m.replicas.WithLabelValues(state, reason).Inc()
	}
	if state, isEnded := endedStates[after.GetState()]; isEnded && before.GetState() != after.GetState() {
		m.ended.WithLabelValues(state).Inc()
	}
}
