package replication

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
)

// presence is what this manager hears of a replicator.
type presence struct {
	attachment *Attachment // nil while its control stream is closed
	since      time.Time   // when it was opened or closed
	heard      time.Time   // when the last message came over it
}

// seen returns since when a replicator's stream is open, or closed. The caller has the lock.
func (d *Desk) seen(name string) (online, away time.Time) {
	switch p := d.presences[name]; {
	case p == nil:
		return time.Time{}, d.started
	case p.attachment == nil:
		return time.Time{}, p.since
	default:
		return p.since, time.Time{}
	}
}

func (d *Desk) isOnline(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	online, _ := d.seen(name)
	return !online.IsZero()
}

// heardWithin is how long ago a replicator that is waited for may last have been heard: some reports may be late.
const heardWithin = 2 * IdleInterval

// isHeard reports whether a replicator is online, and not silent already: one whose machine is gone counts as offline only after a long
// silence.
func (d *Desk) isHeard(name string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	online, _ := d.seen(name)
	return !online.IsZero() && now.Sub(d.lastHeard(name)) <= heardWithin
}

// Away lists the replicators that have registered and are silent.
func (d *Desk) Away() (all []*groupv1.Away) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, replicator := range d.view.AllReplicators() {
		id := identity.ID{Role: identity.Replicator, Name: replicator.GetName()}
		all = d.view.AppendAway(all, id, replicator.GetIncarnation(), d.lastHeard(replicator.GetName()), d.started, Patience)
	}
	return all
}

// lastHeard returns when a replicator last said something. One that has said nothing to this leader may have spoken until this leader began.
// The caller has the lock.
func (d *Desk) lastHeard(name string) time.Time {
	if p := d.presences[name]; p != nil {
		return p.heard
	}
	return d.started
}

const (
	// maxItems is how many LANs, labels, sources, targets and devices a replicator can have.
	maxItems = 64
	// maxWord is how long a node's name, and each key and value of the labels, can be; a path may have maxText.
	maxWord = 253
)

// checkRegistration says what is wrong with what a replicator says of itself. How many items there are is checked first: each
// of very many is not looked at.
func checkRegistration(asked *replicav1.Registration) error {
	var problems ledger.Checks
	problems.That(asked.GetNode() != "" && len(asked.GetNode()) <= maxWord, "node", "has %d characters: want 1 to %d", len(asked.GetNode()), maxWord)
	problems.That(len(asked.GetLans()) > 0 && len(asked.GetLans()) <= maxItems, "lans", "has %d items: want 1 to %d", len(asked.GetLans()), maxItems)
	problems.That(len(asked.GetLabels()) <= maxItems, "labels", "has %d items: at most %d", len(asked.GetLabels()), maxItems)
	lists := []struct {
		field string
		paths []string
		most  int
	}{
		{"sources", asked.GetSources(), maxItems},
		{"devices", asked.GetDevices(), maxItems},
		{"targets", asked.GetTargets(), maxItems + len(asked.GetDevices())}, // which are among them
	}
	for _, list := range lists {
		problems.That(len(list.paths) <= list.most, list.field, "has %d items: at most %d", len(list.paths), list.most)
	}
	if err := problems.Err(); err != nil {
		return err
	}
	for _, lan := range asked.GetLans() {
		problems.No("lans", identity.CheckName(lan))
	}
	for key, value := range asked.GetLabels() {
		problems.That(key != "" && len(key) <= maxWord && len(value) <= maxWord && !strings.ContainsAny(key+value, ",="), "labels",
			"%.80q: keys have 1 to %d characters, values up to as many, none of them a comma or =", key, maxWord)
	}
	for _, list := range lists {
		for _, path := range list.paths {
			problems.That(len(path) <= maxText, list.field, "a path is longer than %d bytes", maxText)
		}
	}
	return problems.Err()
}

// Register notes a replicator and returns its incarnation. A replicator that goes on as an incarnation that is still the newest keeps that, and
// may be on other LANs by then.
func (d *Desk) Register(ctx context.Context, name string, asked *replicav1.Registration) (incarnation uint64, err error) {
	if err := checkRegistration(asked); err != nil {
		return 0, err
	}
	err = d.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		current, _ := d.view.Replicator(name)
		goesOn, err := ledger.GoesOn(asked.GetIncarnation(), current.GetIncarnation())
		if err != nil {
			return ledger.Plan{}, fmt.Errorf("replicator %q, %w", name, err)
		}
		registered := current.GetRegisterTime()
		if incarnation = current.GetIncarnation(); !goesOn {
			incarnation, registered = d.ledger.Next(), timestamppb.Now()
		}
		record := &replicav1.Replicator{
			Name: name, Incarnation: incarnation, Node: asked.GetNode(), Lans: asked.GetLans(), Labels: asked.GetLabels(),
			Sources: asked.GetSources(), Targets: asked.GetTargets(), Devices: asked.GetDevices(), RegisterTime: registered, ProvesName: asked.GetProvesName(), TakesKeys: asked.GetTakesKeys(),
			ProvesSending: asked.GetProvesSending(),
		}
		if goesOn && proto.Equal(record, current.Replicator) {
			return ledger.Plan{}, nil
		}
		return ledger.PutMessage(view.ReplicatorKey(name), record, current.Changed)
	})
	return incarnation, err
}

// Goodbye forgets a replicator that stops.
func (d *Desk) Goodbye(ctx context.Context, name string, incarnation uint64) error {
	defer d.poke()
	return d.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		known, found := d.view.Replicator(name)
		if !found || known.GetIncarnation() != incarnation {
			return ledger.Plan{}, nil
		}
		return ledger.Remove(view.ReplicatorKey(name), known.Changed), nil
	})
}

// Attachment is the control stream of a replicator. It belongs to one goroutine.
type Attachment struct {
	desk        *Desk
	name        string
	incarnation uint64
	wake        chan struct{}
	sent        *replicav1.Tasks // what it was last told; nil at first
}

// Attach attaches the control stream of a replicator that has registered.
func (d *Desk) Attach(name string, incarnation uint64) *Attachment {
	a := &Attachment{desk: d, name: name, incarnation: incarnation, wake: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.presences[name] = &presence{attachment: a, since: now, heard: now}
	d.hearing.HearReplicator(name)
	d.announce()
	d.poke() // it may be late for something that runs
	return a
}

// Close notes that the stream has ended.
func (a *Attachment) Close() {
	a.desk.mu.Lock()
	defer a.desk.mu.Unlock()
	if p := a.desk.presences[a.name]; p.attachment == a {
		p.attachment, p.since = nil, time.Now()
		a.desk.hearing.ReplicatorParted(a.name)
	}
	a.desk.announce()
}

// Wake yields when there may be something to tell the replicator.
func (a *Attachment) Wake() <-chan struct{} { return a.wake }

// Ended is closed when the desk is no longer kept: another leader may be found.
func (a *Attachment) Ended() <-chan struct{} { return a.desk.ended }

// Busy reports whether the replicator has anything to do.
func (a *Attachment) Busy() bool { return len(a.sent.GetCurrent()) > 0 }

// Next returns all that the replicator has to do, in one message, if that has changed since the last call.
func (a *Attachment) Next() []*replicav1.Tasks {
	tasks := a.desk.tasks(a.name, a.incarnation)
	if a.sent != nil && proto.Equal(tasks, a.sent) {
		return nil
	}
	a.sent = tasks
	return []*replicav1.Tasks{tasks}
}

// wakeAll has every replicator told what has changed for it.
func (d *Desk) wakeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.presences {
		if p.attachment == nil {
			continue
		}
		select {
		case p.attachment.wake <- struct{}{}:
		default: // it is awake
		}
	}
	d.announce()
}

// tasks returns all that a replicator has to do. It is the same whichever manager leads, except for whether all have said that they know the
// key. A replicator that has no part is never told that.
func (d *Desk) tasks(name string, incarnation uint64) *replicav1.Tasks {
	tasks := new(replicav1.Tasks)
	for _, r := range d.view.Replications(view.Replication.Running) {
		record := r.GetReplication()
		task := &replicav1.Task{Replication: r.ID(), Key: r.GetKey(), KeyNumber: r.GetKeyNumber()}
		if record.GetSender() == name && r.GetSenderIncarnation() == incarnation {
			task.Duty = &replicav1.Task_Send{Send: &replicav1.SendTask{
				Path: record.GetSpec().GetSourcePath(), Legs: record.GetLegs(), Slow: record.GetSpec().GetSlow(),
				MaxBytesPerSecond: record.GetSpec().GetMaxBytesPerSecond(), DeliveryGroup: r.GetDeliveryGroup(), DeliverTo: overAgents(record), SkipUnused: record.GetSpec().GetSkipUnused(),
				DeliverStream: d.isToDevice(record), NameSecret: r.GetNameSecret(), Unproven: d.unproven(record), KeyIsKnown: d.isKeyKnown(r.ReplicationRecord), PutOut: r.GetPutOut(),
			}}
			tasks.Current = append(tasks.Current, task)
			continue
		}
		if replica := r.Replica(name); replica != nil && replica.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING {
			task.Duty = &replicav1.Task_Receive{Receive: d.receiveTask(r.ReplicationRecord, replica)}
			tasks.Current = append(tasks.Current, task)
		}
	}
	return tasks
}

// unproven returns the replicas that cannot prove their names, since they run an earlier version.
func (d *Desk) unproven(record *replicav1.Replication) (names []string) {
	for _, replica := range record.GetReplicas() {
		if r, registered := d.view.Replicator(replica.GetName()); registered && !r.GetProvesName() {
			names = append(names, replica.GetName())
		}
	}
	return names
}

// overAgents returns the replicas to which session agents carry it. Those at which it has ended are not waited for any more.
func overAgents(record *replicav1.Replication) (names []string) {
	for _, replica := range record.GetReplicas() {
		if replica.GetOverAgents() && replica.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING {
			names = append(names, replica.GetName())
		}
	}
	return names
}

func (d *Desk) receiveTask(r *managerv1.ReplicationRecord, replica *replicav1.Replica) *replicav1.ReceiveTask {
	record := r.GetReplication()
	task := &replicav1.ReceiveTask{
		Path: record.GetSpec().GetTargetPath(), Lan: replica.GetLan(), DeviceSerial: record.GetSpec().GetDeviceSerial(),
	}
	if len(r.GetNameSecret()) > 0 {
		task.NameKey = fast.NameKey(r.GetNameSecret(), replica.GetName())
		sender, _ := d.view.Replicator(record.GetSender()) // a sender of an earlier version does not
		task.SenderProves = sender.GetProvesSending() && sender.GetIncarnation() == r.GetSenderIncarnation()
	}
	if replica.GetOverAgents() {
		task.DeliveryGroup, task.Length = r.GetDeliveryGroup(), record.GetLength()
	}
	for _, leg := range record.GetLegs() {
		if leg.GetLan() == replica.GetLan() {
			task.Group = leg.GetGroup()
		}
	}
	return task
}

// Report notes how a replicator is. It returns FENCED if a newer incarnation has come, and
// OFFLINE if the replicator was forgotten meanwhile and must register again.
func (a *Attachment) Report(report *replicav1.Report) replicav1.ReplicatorState {
	d := a.desk
	known, found := d.view.Replicator(a.name)
	switch {
	case found && known.GetIncarnation() > a.incarnation:
		return replicav1.ReplicatorState_REPLICATOR_STATE_FENCED
	case !found:
		return replicav1.ReplicatorState_REPLICATOR_STATE_OFFLINE
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.presences[a.name]; p.attachment == a {
		p.heard = time.Now()
		d.hearing.HearReplicator(a.name)
	}
	for _, said := range report.GetSending() {
		d.takeSending(a, said, time.Now())
	}
	for _, said := range report.GetReceiving() {
		d.takeReceiving(a.name, said)
	}
	if len(report.GetSending())+len(report.GetReceiving()) > 0 {
		d.announce()
	}
	return replicav1.ReplicatorState_REPLICATOR_STATE_ONLINE
}

// takeSending notes what a sender says. The caller has the lock.
func (d *Desk) takeSending(from *Attachment, said *replicav1.SendReport, now time.Time) {
	r, found := d.view.Replication(said.GetReplication())
	if !found || !r.Running() || r.GetReplication().GetSender() != from.name || r.GetSenderIncarnation() != from.incarnation {
		return
	}
	p := d.of(r.ID())
	if said.GetAnnouncing() && p.announcing.IsZero() {
		p.announcing = now
	}
	if said.GetEnded() && p.ended.IsZero() {
		p.ended = now
		d.poke()
	}
	replicas := namesOf(r)
	heard := heardSending(said, replicas)
	if len(heard.GetRoot()) > 0 && len(p.sending.GetRoot()) == 0 {
		d.poke()
	}
	for _, name := range said.GetDelivered() {
		if p.delivered[name].IsZero() && replicas[name] {
			p.delivered[name] = now
		}
	}
	p.hear(heard)
}

// namesOf returns the names of the replicas.
func namesOf(r view.Replication) map[string]bool {
	names := make(map[string]bool, len(r.GetReplication().GetReplicas()))
	for _, replica := range r.GetReplication().GetReplicas() {
		names[replica.GetName()] = true
	}
	return names
}

// takeReceiving notes what a replica says. The caller has the lock.
func (d *Desk) takeReceiving(from string, said *replicav1.ReceiveReport) {
	r, found := d.view.Replication(said.GetReplication())
	if !found || !r.Running() || r.Replica(from) == nil {
		return
	}
	p := d.of(r.ID())
	earlier := p.receiving[from]
	if said.GetState() != earlier.GetState() {
		d.poke()
	}
	heard := heardReceiving(said)
	heard.Bytes = max(heard.GetBytes(), earlier.GetBytes()) // one that waits for session agents keeps what multicast brought
	p.receiving[from] = heard
}
