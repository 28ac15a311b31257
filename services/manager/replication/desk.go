// Package replication holds the rules of replications, as the leading manager applies them:
// who sends and who gets it, over which multicast group and under which key, when a replica
// has it and when it has failed, and how it ends.
//
// A Desk lives as long as a term. What must survive it is written to the store: which
// replicators there are, and each replication with its key and its receipts. How far
// everybody is, is what replicators report, and only in the desk's memory: a new leader
// waits for new reports. The transfer itself goes on without any manager.
package replication

import (
	"context"
	"log/slog"
	"sync"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// BusyInterval is how often replicators report while they have something to do,
	// IdleInterval otherwise; Patience is how long they may be silent.
	BusyInterval = 500 * time.Millisecond
	IdleInterval = 2 * time.Second
	Patience     = 10 * time.Second
	// stepInterval is how often all that run are looked at.
	stepInterval = 250 * time.Millisecond
	// pokePause is the least time between two looks that reports of replicators bring about: a thousand replicas may be done within seconds,
	// and each look writes all that is new of a replication, and tells everybody what there is to do.
	pokePause = 50 * time.Millisecond
	// forgetInterval is how often old ones are looked for.
	forgetInterval = 10 * time.Second
)

// Groups are the groups in which session agents deliver.
type Groups interface {
	CreateGroup(context.Context, identity.ID, *groupv1.CreateGroupRequest) (*groupv1.CreateGroupResponse, error)
	DeleteGroup(context.Context, identity.ID, *groupv1.DeleteGroupRequest) (*groupv1.DeleteGroupResponse, error)
}

// Hearing says whether this manager hears others, and is told of replicators whether it does.
type Hearing interface {
	// LastCutOff returns when it last heard so few that nobody is to be blamed for being silent; zero if it always heard enough.
	LastCutOff() time.Time
	// HearReplicator notes that a replicator says something.
	HearReplicator(name string)
	// ReplicatorParted notes that a replicator's stream has ended.
	ReplicatorParted(name string)
}

// Desk is the state and the rules of replications at the manager that leads.
type Desk struct {
	ledger  *ledger.Ledger
	store   *store.Store
	view    *view.View
	groups  Groups
	hearing Hearing
	places  Places
	metrics *Metrics
	log     *slog.Logger
	started time.Time
	ended   chan struct{} // closed when the desk is no longer kept
	pokes   chan struct{}

	mu        sync.Mutex
	presences map[string]*presence
	progress  map[string]*progress
	changed   chan struct{} // closed when there is something new to show
}

// Lead returns the desk of a term.
func Lead(by *ledger.Ledger, from *store.Store, shown *view.View, groups Groups, hearing Hearing, places Places, metrics *Metrics, log *slog.Logger) *Desk {
	d := &Desk{
		ledger: by, store: from, view: shown, groups: groups, hearing: hearing, places: places, metrics: metrics, log: log.With("term", by.Term().Number), started: time.Now(),
		ended: make(chan struct{}), pokes: make(chan struct{}, 1),
		presences: make(map[string]*presence), progress: make(map[string]*progress), changed: make(chan struct{}),
	}
	for _, r := range shown.Replications(view.Replication.Running) {
		d.of(r.ID()).inherited = true
	}
	return d
}

// Run looks after all replications until ctx is done or the term is over.
func (d *Desk) Run(ctx context.Context) error {
	defer close(d.ended)
	step, forget := time.NewTicker(stepInterval), time.NewTicker(forgetInterval)
	soon := time.NewTimer(0)
	defer step.Stop()
	defer forget.Stop()
	defer soon.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.ledger.Term().Ended():
			return ledger.ErrNotLeading
		case <-d.pokes:
			soon.Reset(time.Until(looked.Add(pokePause)))
			continue
		case <-soon.C:
		case <-step.C:
		case <-forget.C:
			d.forget(ctx)
		}
		d.step(ctx)
		looked = time.Now()
	}
}

// Ended is closed when this desk is no longer kept.
func (d *Desk) Ended() <-chan struct{} { return d.ended }

// poke has all replications looked at now.
func (d *Desk) poke() {
	select {
	case d.pokes <- struct{}{}:
	default: // they will be
	}
}

// step does for each replication that runs what is due.
func (d *Desk) step(ctx context.Context) {
	running := make(map[string]bool)
	for _, r := range d.view.Replications(view.Replication.Running) {
		running[r.ID()] = true
		if err := d.writeVerdict(ctx, r, time.Now()); err != nil && ctx.Err() == nil {
			d.log.Warn("a replication could not be looked after; trying again", "replication", r.ID(), "error", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.progress {
		if !running[id] {
			delete(d.progress, id)
		}
	}
}

// progress is how far a replication is, by what was reported in this term.
type progress struct {
	inherited  bool                             // it began under another leader
	sending    *replicav1.SendReport            // nil before the first
	members    map[string]*replicav1.SendMember // what it says of each replica
	announcing time.Time                        // since when
	ended      time.Time
	settled    time.Time // since when the outcome at all replicas is known
	receiving  map[string]*replicav1.ReceiveReport
	delivered  map[string]time.Time // since when session agents have delivered it, by replica
}

// of returns the progress of a replication. The caller has the lock.
func (d *Desk) of(id string) *progress {
	p := d.progress[id]
	if p == nil {
		p = &progress{receiving: make(map[string]*replicav1.ReceiveReport), delivered: make(map[string]time.Time)}
		d.progress[id] = p
	}
	return p
}

// hear notes what the sender has reported.
func (p *progress) hear(said *replicav1.SendReport) {
	p.sending, p.members = said, make(map[string]*replicav1.SendMember, len(said.GetMembers()))
	for _, member := range said.GetMembers() {
		p.members[member.GetName()] = member
	}
}

// facts collects what the outcome is decided by.
func (d *Desk) facts(r view.Replication, now time.Time) facts {
	record := r.GetReplication()
	f := facts{now: now, agents: d.canDeliver()}
	if limit := record.GetSpec().GetDeadline().AsDuration(); limit > 0 {
		f.deadline = record.GetCreateTime().AsTime().Add(limit)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.of(r.ID())
	deaf := d.hearing.LastCutOff()
	_, f.sender.away = d.seen(record.GetSender())
	f.sender.away = notBefore(f.sender.away, deaf)
	known, registered := d.view.Replicator(record.GetSender())
	f.sender.gone = !registered || known.GetIncarnation() != r.GetSenderIncarnation()
	f.sender.announcing, f.sender.ended = p.announcing, p.ended
	f.sender.reason, f.sender.detail = p.sending.GetReason(), p.sending.GetDetail()
	f.sender.root, f.sender.problem = record.GetRoot(), p.sending.GetDeliveryProblem()
	if root := p.sending.GetRoot(); len(root) > 0 {
		f.sender.root = root
	}
	groups := make(map[string]string)
	for _, leg := range record.GetLegs() {
		groups[leg.GetLan()] = leg.GetGroup()
	}
	for _, replica := range record.GetReplicas() {
		one := d.replicaFacts(p, replica, groups[replica.GetLan()])
		one.online, one.away = notBefore(one.online, deaf), notBefore(one.away, deaf)
		one.putOut = d.isPutOut(r.ReplicationRecord, replica.GetName())
		f.replicas = append(f.replicas, one)
	}
	return f
}

// notBefore returns since when something is so that may have been so before a moment, but counts from then on; zero if it is not so.
func notBefore(since, moment time.Time) time.Time {
	if since.IsZero() || since.After(moment) {
		return since
	}
	return moment
}

// replicaFacts collects what is known of a replica. The caller has the lock.
func (d *Desk) replicaFacts(p *progress, replica *replicav1.Replica, group string) replicaFacts {
	name := replica.GetName()
	f := replicaFacts{name: name, place: "LAN " + replica.GetLan() + " (" + group + ")", state: replica.GetState(), report: p.receiving[name]}
	f.overAgents, f.delivered = replica.GetOverAgents(), p.delivered[name]
	f.online, f.away = d.seen(name)
	_, registered := d.view.Replicator(name)
	f.left = !registered
	member := p.members[name]
	f.givenUp, f.isUnserved = member.GetReason(), member == nil && p.sending.GetEnded()
	return f
}

// announce tells those who watch that there is something new. The caller has the lock.
func (d *Desk) announce() {
	close(d.changed)
	d.changed = make(chan struct{})
}
