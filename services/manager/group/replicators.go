package group

import "time"

// The rules of replicators are not here: that this manager hears one counts where it finds whether it is cut off.

// HearReplicator notes that a replicator says something.
func (r *Registry) HearReplicator(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replicators.Heard(name, time.Now())
}

// ReplicatorParted is SessionParted of a replicator.
func (r *Registry) ReplicatorParted(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deaf {
		r.replicators.Doubt(name)
	}
}
