package replication

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// When the identity of a replica is revoked while a replication runs, that replica has no part any more, and the others get another key: in
// their tasks, over streams of which both ends are checked. Each says in its report that it has the key. When all that are waited for have said
// so, the sender is told, and seals with that key; after 2 s it does so in any case. A replica that is complete is put out, too, since it has
// the former key.

// rekeyPause is the least time between two keys: identities that are revoked one after another share one.
const rekeyPause = time.Second

// isPutOut reports whether the identity of a replica was revoked after it registered or, if it has left, after the sender registered.
func (d *Desk) isPutOut(r *managerv1.ReplicationRecord, name string) bool {
	since := r.GetSenderIncarnation()
	if known, registered := d.view.Replicator(name); registered {
		since = known.GetIncarnation()
	}
	return d.view.IsPutOut(identity.ID{Role: identity.Replicator, Name: name}, since)
}

// rekey puts out the replicas whose identities are revoked, and makes another key if that is due.
func (d *Desk) rekey(record *managerv1.ReplicationRecord, f facts) {
	out, earlier := putOut(record, f), d.withoutKeys(record.GetReplication())
	log := d.log.With("replication", record.GetReplication().GetId())
	if len(out) > 0 {
		log.Info("the identities of replicas were revoked: they have no part any more", "replicas", out)
	}
	if len(out) > 0 && len(earlier) > 0 {
		log.Warn("a replication keeps its key as long as replicators of an earlier version take part: they would be lost with another", "replicators", earlier)
	}
	if !isKeyDue(record, f.now) || len(earlier) > 0 {
		return
	}
	record.Key, record.KeyTime, record.KeyIsDue = newKey(), timestamppb.New(f.now), false
	record.KeyNumber++
	log.Info("a replication gets another key", "number", record.GetKeyNumber())
}

// putOut notes in a record which replicas' identities were revoked, and returns those that the record did not have yet.
func putOut(record *managerv1.ReplicationRecord, f facts) (out []string) {
	for _, replica := range f.replicas {
		if replica.putOut && !slices.Contains(record.GetPutOut(), replica.name) {
			out = append(out, replica.name)
		}
	}
	record.PutOut = append(record.PutOut, out...)
	record.KeyIsDue = record.GetKeyIsDue() || len(out) > 0
	return out
}

// isKeyDue reports whether it is time for another key.
func isKeyDue(record *managerv1.ReplicationRecord, now time.Time) bool {
	since := now.Sub(record.GetKeyTime().AsTime())
	return record.GetKeyIsDue() && (since >= rekeyPause || since < 0) // the clock of the manager that led before may be ahead
}

// withoutKeys returns the replicators that would have to take another key and cannot, since they run an earlier version.
func (d *Desk) withoutKeys(r *replicav1.Replication) (earlier []string) {
	for _, name := range append(listeners(r), r.GetSender()) {
		if known, registered := d.view.Replicator(name); registered && !known.GetTakesKeys() {
			earlier = append(earlier, name)
		}
	}
	return earlier
}

// listeners returns the replicas that are waited for and hear the sender by multicast.
func listeners(r *replicav1.Replication) (names []string) {
	for _, replica := range r.GetReplicas() {
		if replica.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING && !replica.GetOverAgents() {
			names = append(names, replica.GetName())
		}
	}
	return names
}

// isKeyKnown reports whether all replicas that hear the sender have said that they have the key. The sender is told with the answer to its next
// report.
func (d *Desk) isKeyKnown(record *managerv1.ReplicationRecord) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.of(record.GetReplication().GetId())
	return !slices.ContainsFunc(listeners(record.GetReplication()), func(name string) bool {
		return p.receiving[name].GetKeyNumber() != record.GetKeyNumber()
	})
}
