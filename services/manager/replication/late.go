package replication

import (
	"slices"
	"strings"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// A replicator that comes while a replication runs that selects it takes part, if others in its LAN are still being sent to. What it missed is
// sent again to that LAN's group when the others have everything, once for all that came late. A LAN that has no part in the replication gets
// none, and neither does a LAN in which all replicas have ended: nobody is sending there.

// latecomers returns the replicas that a replication gets in addition.
func latecomers(record *replicav1.Replication, all []*replicav1.Replicator, online func(name string) bool) (late []*replicav1.Replica) {
	selected, err := parseSelector(record.GetSpec().GetSelector())
	at := slices.IndexFunc(all, func(r *replicav1.Replicator) bool { return r.GetName() == record.GetSender() })
	if err != nil || at < 0 {
		return nil
	}
	taken, lans := make(map[string]bool), make(map[string]bool)
	for _, replica := range record.GetReplicas() {
		taken[replica.GetName()] = true
		if replica.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING && !replica.GetOverAgents() {
			lans[replica.GetLan()] = true
		}
	}
	for _, r := range all {
		isNew := r.GetName() != record.GetSender() && !taken[r.GetName()] && selected.matches(r)
		if !isNew || !lans[selected.lan(all[at], r)] || !online(r.GetName()) || len(record.GetReplicas())+len(late) >= maxReplicas {
			continue
		}
		late = append(late, newReplica(selected, all[at], r))
	}
	return late
}

func newReplica(selected selector, sender, r *replicav1.Replicator) *replicav1.Replica {
	return &replicav1.Replica{
		Name: r.GetName(), Node: r.GetNode(), Lan: selected.lan(sender, r), State: replicav1.ReplicaState_REPLICA_STATE_WAITING,
	}
}

// admit adds the replicators that came late to a replication that goes on.
func (d *Desk) admit(record *replicav1.Replication) {
	d.mu.Lock()
	isSending := d.of(record.GetId()).ended.IsZero()
	d.mu.Unlock()
	if !isSending {
		return
	}
	late := latecomers(record, d.view.AllReplicators(), d.isOnline)
	for _, replica := range late {
		for _, leg := range record.GetLegs() {
			if leg.GetLan() == replica.GetLan() {
				leg.Replicas++
			}
		}
		d.log.Info("a replicator came late, and takes part", "replication", record.GetId(), "replica", replica.GetName(), "lan", replica.GetLan())
	}
	record.Replicas = append(record.Replicas, late...)
	slices.SortFunc(record.Replicas, func(a, b *replicav1.Replica) int { return strings.Compare(a.GetName(), b.GetName()) })
}
