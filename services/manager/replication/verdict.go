package replication

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// writeVerdict writes what was decided of a replication, and what the sender said of its source.
func (d *Desk) writeVerdict(ctx context.Context, r view.Replication, now time.Time) error {
	f := d.facts(r, now)
	v := decide(f)
	if v.ended && v.reason == "" && d.awaitsLastWord(r.ID(), f) {
		return nil
	}
	record := proto.CloneOf(r.ReplicationRecord)
	if err := d.reroute(ctx, record, v.overAgents); err != nil {
		return err
	}
	d.describe(record.GetReplication())
	d.apply(record, v, now)
	if !v.ended {
		d.admit(record.GetReplication())
		d.rekey(record, f)
	}
	if proto.Equal(record, r.ReplicationRecord) {
		return nil
	}
	err := d.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		current, found := d.view.Replication(r.ID())
		if !found || current.Changed != r.Changed {
			return ledger.Plan{}, errChanged
		}
		return putReplication(record, r.Changed)
	})
	switch {
	case errors.Is(err, errChanged): // it is looked at again as it is now
		d.poke()
		return nil
	case err != nil:
		return err
	}
	d.metrics.changed(r.GetReplication(), record.GetReplication())
	if v.ended {
		d.noteEnd(record.GetReplication())
	}
	d.wakeAll()
	return nil
}

// lastWord is how long a sender has to report how much it has sent, once the outcome is known for all replicas: replicas and sender tell the
// managers at the same time.
const lastWord = time.Second

func (d *Desk) awaitsLastWord(id string, f facts) bool {
	if !f.sender.ended.IsZero() || !f.sender.away.IsZero() || f.sender.gone {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.of(id)
	if p.settled.IsZero() {
		p.settled = f.now
	}
	return f.now.Sub(p.settled) < lastWord
}

var errChanged = errors.New("the replication was changed meanwhile")

func putReplication(record *managerv1.ReplicationRecord, changed store.Revision) (ledger.Plan, error) {
	return ledger.PutMessage(view.ReplicationKey(record.GetReplication().GetId()), record, changed)
}

// describe notes what the sender said of its source.
func (d *Desk) describe(record *replicav1.Replication) {
	d.mu.Lock()
	defer d.mu.Unlock()
	said := d.of(record.GetId()).sending
	if said.GetName() != "" {
		record.Name, record.Length = said.GetName(), said.GetLength()
	}
	if len(said.GetRoot()) > 0 {
		record.Root = said.GetRoot()
	}
}

// apply puts a verdict into a record. A replication that has ended has no keys any more.
func (d *Desk) apply(record *managerv1.ReplicationRecord, v verdict, now time.Time) {
	replication := record.GetReplication()
	for _, replica := range replication.GetReplicas() {
		if o, decided := v.outcomes[replica.GetName()]; decided {
			d.receipt(replication, replica, o, now)
		}
	}
	if !v.ended {
		return
	}
	d.mu.Lock()
	replication.SentBytes = d.of(replication.GetId()).sending.GetSentBytes()
	d.mu.Unlock()
	count(replication)
	record.Key, record.NameSecret = nil, nil
	replication.EndTime, replication.Reason, replication.Detail = timestamppb.New(now), v.reason, v.detail
	replication.State = stateOf(len(replication.GetReplicas()), int(replication.GetCompleteCount()))
}

// receipt makes a replica's receipt.
func (d *Desk) receipt(of *replicav1.Replication, replica *replicav1.Replica, o outcome, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addProgress(replica, d.of(of.GetId()))
	replica.State, replica.Reason, replica.Detail = o.state, o.reason, o.detail
	replica.ChangeTime = timestamppb.New(now)
	switch o.state {
	case replicav1.ReplicaState_REPLICA_STATE_UNKNOWN:
		if _, away := d.seen(replica.GetName()); !away.IsZero() {
			replica.ChangeTime = timestamppb.New(d.lastHeard(replica.GetName()))
		}
	case replicav1.ReplicaState_REPLICA_STATE_COMPLETE:
		replica.Bytes, replica.BytesUnknown = of.GetLength(), false
		replica.Elapsed = d.of(of.GetId()).receiving[replica.GetName()].GetElapsed()
		if replica.Elapsed == nil {
			replica.Elapsed = durationpb.New(now.Sub(of.GetCreateTime().AsTime()))
		}
	}
}

// count counts the replicas, and those that are complete and that have failed.
func count(r *replicav1.Replication) {
	r.ReplicaCount, r.CompleteCount, r.FailedCount = uint32(len(r.GetReplicas())), 0, 0
	for _, replica := range r.GetReplicas() {
		switch replica.GetState() {
		case replicav1.ReplicaState_REPLICA_STATE_COMPLETE:
			r.CompleteCount++
		case replicav1.ReplicaState_REPLICA_STATE_FAILED:
			r.FailedCount++
		}
	}
}

func (d *Desk) noteEnd(r *replicav1.Replication) {
	d.log.Info("a replication ended", "replication", r.GetId(), "state", r.GetState().String(), "reason", r.GetReason(),
		"complete", r.GetCompleteCount(), "replicas", r.GetReplicaCount())
}

// Cancel ends a replication. Replicas that have said that they have all are complete. A replication that has ended stays as it is.
func (d *Desk) Cancel(ctx context.Context, id string) (*replicav1.CancelReplicationResponse, error) {
	var before, after *replicav1.Replication // set if this call ends it
	err := d.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		before, after = nil, nil
		r, err := d.replication(id)
		if err != nil || !r.Running() {
			return ledger.Plan{}, err
		}
		record, now := proto.CloneOf(r.ReplicationRecord), time.Now()
		f := d.facts(r, now)
		f.canceled = true
		d.describe(record.GetReplication())
		d.apply(record, decide(f), now)
		before, after = r.GetReplication(), record.GetReplication()
		return putReplication(record, r.Changed)
	})
	if err != nil {
		return nil, err
	}
	d.metrics.changed(before, after)
	d.wakeAll()
	r, err := d.replication(id)
	if err != nil {
		return nil, err
	}
	return &replicav1.CancelReplicationResponse{Replication: d.Show(r, true)}, nil
}

const (
	// forgetAfter is how long a replication that has ended is remembered, and maxRemembered how many are at most. forgetReplicator is how long
	// a replicator that is away is remembered.
	forgetAfter      = 24 * time.Hour
	maxRemembered    = 1000
	forgetReplicator = time.Hour
)

// forget deletes the groups of replications that have ended, replications that did long ago, and replicators that have long been away.
func (d *Desk) forget(ctx context.Context) {
	d.disband(ctx)
	now := time.Now()
	for i, r := range d.view.Replications(func(r view.Replication) bool { return !r.Running() }) {
		if i >= maxRemembered || now.Sub(r.GetReplication().GetEndTime().AsTime()) > forgetAfter {
			d.remove(ctx, view.ReplicationKey(r.ID()), r.Changed)
		}
	}
	for _, r := range d.view.AllReplicators() {
		d.mu.Lock()
		_, away := d.seen(r.GetName())
		d.mu.Unlock()
		if !away.IsZero() && now.Sub(away) > forgetReplicator {
			if known, found := d.view.Replicator(r.GetName()); found {
				d.remove(ctx, view.ReplicatorKey(r.GetName()), known.Changed)
			}
		}
	}
}

func (d *Desk) remove(ctx context.Context, key string, changed store.Revision) {
	if _, err := d.store.Commit(ctx, d.ledger.Term(), []store.Cond{store.Unchanged(key, changed)}, []store.Op{store.Delete(key)}); err != nil {
		d.log.Debug("what is old could not be forgotten; trying again later", "key", key, "error", err)
	}
}
