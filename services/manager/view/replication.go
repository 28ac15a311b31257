package view

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Replicator is a replicator as stored: without its state, which is in the leader's memory.
// Its message is shared: it must not be changed.
type Replicator struct {
	*replicav1.Replicator
	Changed store.Revision
}

// Replication is a replication as stored. Its message is shared: it must not be changed.
type Replication struct {
	*managerv1.ReplicationRecord
	Changed store.Revision
}

// ID returns the replication's id.
func (r Replication) ID() string { return r.GetReplication().GetId() }

// Running reports whether the replication has not ended.
func (r Replication) Running() bool {
	return r.GetReplication().GetState() == replicav1.ReplicationState_REPLICATION_STATE_RUNNING
}

// Replica returns the replica of a name; nil if there is none. A record has them sorted by name: there may be a thousand, and each is asked
// for.
func (r Replication) Replica(name string) *replicav1.Replica {
	replicas := r.GetReplication().GetReplicas()
	at, found := slices.BinarySearchFunc(replicas, name, func(replica *replicav1.Replica, name string) int {
		return cmp.Compare(replica.GetName(), name)
	})
	if !found {
		return nil
	}
	return replicas[at]
}

// Delivers reports whether the replication is delivered in a group in which a replicator takes part.
func (r Replication) Delivers(group, replicator string) bool {
	if group == "" || r.GetDeliveryGroup() != group || !r.Running() {
		return false
	}
	return r.GetReplication().GetSender() == replicator || r.Replica(replicator).GetOverAgents()
}

func (v *View) putReplicator(item store.Item) error {
	record := new(replicav1.Replicator)
	if err := proto.Unmarshal(item.Value, record); err != nil {
		return err
	}
	v.replicators[record.GetName()] = Replicator{record, item.Changed}
	return nil
}

func (v *View) putReplication(item store.Item) error {
	record := new(managerv1.ReplicationRecord)
	if err := proto.Unmarshal(item.Value, record); err != nil {
		return err
	}
	v.replications[record.GetReplication().GetId()] = Replication{record, item.Changed}
	return nil
}

// Replicator returns a replicator.
func (v *View) Replicator(name string) (record Replicator, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	record, found = v.replicators[name]
	return record, found
}

// Replicators returns up to limit replicators whose names come after the one given.
func (v *View) Replicators(after string, limit int) (page []*replicav1.Replicator, more bool) {
	return cut(v.AllReplicators(), after, limit)
}

// AllReplicators returns the replicators, by name: more than one message may hold.
func (v *View) AllReplicators() (all []*replicav1.Replicator) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, record := range v.replicators {
		all = append(all, record.Replicator)
	}
	sortByName(all)
	return all
}

// Replication returns a replication.
func (v *View) Replication(id string) (record Replication, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	record, found = v.replications[id]
	return record, found
}

// Replications returns all replications for which is returns true, the newest first.
func (v *View) Replications(is func(Replication) bool) (found []Replication) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, record := range v.replications {
		if is(record) {
			found = append(found, record)
		}
	}
	slices.SortFunc(found, func(a, b Replication) int {
		return cmp.Or(
			b.GetReplication().GetCreateTime().AsTime().Compare(a.GetReplication().GetCreateTime().AsTime()),
			cmp.Compare(a.ID(), b.ID()))
	})
	return found
}
