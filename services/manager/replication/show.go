package replication

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
	"github.com/groupcast/groupcast/services/manager/watch"
)

// replication returns a replication by its whole id.
func (d *Desk) replication(id string) (view.Replication, error) {
	r, found := d.view.Replication(id)
	if !found {
		return view.Replication{}, fmt.Errorf("replication %.40q %w", id, ledger.ErrNotFound)
	}
	return r, nil
}

// Find returns the replication whose id begins with the prefix.
func (d *Desk) Find(prefix string) (view.Replication, error) {
	if err := ledger.CheckPrefix("replication", prefix); err != nil {
		return view.Replication{}, err
	}
	found := d.view.Replications(func(r view.Replication) bool { return strings.HasPrefix(r.ID(), prefix) })
	switch len(found) {
	case 0:
		return view.Replication{}, fmt.Errorf("replication %.40q %w", prefix, ledger.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return view.Replication{}, fmt.Errorf("replication %q: %w: several begin with these digits; give more of them", prefix, ErrAmbiguous)
}

// List returns up to limit replications that come after the one that an earlier page ended
// with, the newest first, without their replicas.
func (d *Desk) List(after string, limit int) (page []*replicav1.Replication, last string, more bool) {
	placeOf := func(r view.Replication) string {
		return ledger.NewestFirst(r.GetReplication().GetCreateTime().AsTime(), r.ID())
	}
	all := d.view.Replications(func(r view.Replication) bool { return after == "" || placeOf(r) > after })
	page, fits := view.Fill(func(yield func(*replicav1.Replication) bool) {
		for _, r := range all[:min(limit, len(all))] {
			if !yield(d.Show(r, false)) {
				return
			}
		}
	})
	if len(page) > 0 {
		last = placeOf(all[len(page)-1])
	}
	return page, last, !fits || len(all) > limit
}

// Watch sends a replication as it is, and again whenever it changes, until it has ended. Heartbeats are sent as nil.
func (d *Desk) Watch(ctx context.Context, id string, send func(*replicav1.Replication) error) error {
	return watch.Watched[*replicav1.Replication]{
		Changed: func() <-chan struct{} {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.changed
		},
		Show: func() (*replicav1.Replication, bool, error) {
			r, err := d.replication(id)
			if err != nil {
				return nil, false, err
			}
			return d.Show(r, true), r.Running(), nil
		},
		Running: func() (bool, error) {
			r, err := d.replication(id)
			return err == nil && r.Running(), err
		},
		Ended: d.ended, Send: send,
	}.Run(ctx)
}

// Show returns a replication as the API shows it: never with its key.
func (d *Desk) Show(r view.Replication, whole bool) *replicav1.Replication {
	shown := proto.CloneOf(r.GetReplication())
	if r.Running() {
		d.mu.Lock()
		p := d.of(r.ID())
		shown.SentBytes = p.sending.GetSentBytes()
		if p.sending.GetName() != "" {
			shown.Name, shown.Length = p.sending.GetName(), p.sending.GetLength()
		}
		for _, replica := range shown.GetReplicas() {
			if replica.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING {
				d.addProgress(replica, p)
			}
		}
		d.mu.Unlock()
	}
	count(shown)
	if !whole {
		shown.Replicas = nil
	}
	return shown
}

// addProgress adds what is known of a replica whose receipt is not written. The caller has the lock.
func (d *Desk) addProgress(replica *replicav1.Replica, p *progress) {
	said := p.receiving[replica.GetName()]
	replica.BytesUnknown = said == nil && p.inherited
	if said != nil {
		replica.Bytes, replica.ResumedBytes = said.GetBytes(), said.GetResumedBytes()
		if said.GetState() != replicav1.ReplicaState_REPLICA_STATE_UNSPECIFIED {
			replica.State = replicav1.ReplicaState_REPLICA_STATE_RECEIVING
		}
		if said.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING {
			replica.State = said.GetState()
		}
	}
	if member := p.members[replica.GetName()]; member != nil {
		replica.Lost, replica.Detached = member.GetLost(), member.GetDetached()
	}
	if _, away := d.seen(replica.GetName()); !away.IsZero() {
		replica.State, replica.ChangeTime = replicav1.ReplicaState_REPLICA_STATE_UNKNOWN, timestamppb.New(d.lastHeard(replica.GetName()))
	}
}

// Replicators returns up to limit replicators whose names come after the one given.
func (d *Desk) Replicators(after string, limit int) (page []*replicav1.Replicator, more bool) {
	records, more := d.view.Replicators(after, limit)
	running := d.view.Replications(view.Replication.Running)
	for _, record := range records {
		shown := proto.CloneOf(record)
		shown.State = replicav1.ReplicatorState_REPLICATOR_STATE_OFFLINE
		if d.isOnline(record.GetName()) {
			shown.State = replicav1.ReplicatorState_REPLICATOR_STATE_ONLINE
		}
		for _, r := range running {
			if r.GetReplication().GetSender() == record.GetName() {
				shown.Replications++
			}
			if replica := r.Replica(record.GetName()); replica != nil && replica.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING {
				shown.Replications++
			}
		}
		page = append(page, shown)
	}
	return page, more
}
