package delivery

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// keepDefault is how long agents hold an object where nothing else was asked.
	keepDefault = 10 * time.Minute
	// lingerMember is how long members, and lingerAgent agents, are told at least that a delivery has ended.
	lingerMember = time.Minute
	lingerAgent  = 5 * time.Second
	// retryPause is the pause before trying again what could not be written.
	retryPause = 200 * time.Millisecond
	// fullPause is the pause before trying again what the store had no room for: somebody has to make some.
	fullPause = time.Second
)

// keeper looks after one delivery.
type keeper struct {
	desk      *Desk
	id, group string
	hadEnded  bool // before this manager led: what was measured stays
	pokes     chan struct{}
	made      time.Time
	started   bool // only the desk's goroutine touches this

	// Only the keeper's goroutine touches these.
	treeRead     store.Revision            // changed with the tree, under its lock
	bannedUntil  map[string]time.Time      // agents that were lost
	believedAt   map[identity.ID]time.Time // when a node's word alone had an agent taken out as unreachable, by node
	senderGone   time.Time                 // since when the sender's session has ended
	unrest       unrest
	capabilities map[identity.ID]capability
	assigned     map[identity.ID]*groupv1.Assignment
	lag          *reshape.Watch
	seek         *reshape.Seek
	sought       time.Time // when better parents were last looked for
	remeasured   time.Time // when the tree last was to go by what was measured then
	forgot       time.Time // when nodes that have gone were last forgotten
	room         room
	unwritten    map[identity.ID]string // complaints of the rearrangement that could not be written last
	crowdedAt    time.Time              // when it was last logged that some have no room
	failedAt     time.Time              // when looking after the delivery last failed: nodes that stood still until then may have waited for it
	warning      string                 // what was last logged about such a failure
	warnedAt     time.Time

	mu       sync.Mutex
	tree     *tree.Tree              // as of treeRead; nil if nobody can be fed; only the keeper's goroutine changes it
	fedBy    map[identity.ID]feeding // who feeds each of its nodes
	progress *progress
	measured int               // how many members had it when the measurements were last written; -1 if they were not
	told     map[string]uint64 // how many directives the nodes of each cluster were sent
	changed  chan struct{}     // closed when there is something new to show
}

func newKeeper(d *Desk, delivery view.Delivery) *keeper {
	return &keeper{
		made: time.Now(), desk: d, id: delivery.ID(), group: delivery.GetDelivery().GetGroup(), pokes: make(chan struct{}, 1),
		bannedUntil: make(map[string]time.Time), believedAt: make(map[identity.ID]time.Time),
		capabilities: make(map[identity.ID]capability), assigned: make(map[identity.ID]*groupv1.Assignment),
		lag: reshape.NewWatch(), seek: reshape.NewSeek(), sought: time.Now(), remeasured: time.Now(), forgot: time.Now(), hadEnded: !delivery.Running(), measured: -1,
		progress: newProgress(delivery, time.Now()), told: make(map[string]uint64), changed: make(chan struct{}),
	}
}

// takeOver learns the delivery's tree and tells everybody what there is to do, as
// it was decided earlier.
func (k *keeper) takeOver(delivery view.Delivery) {
	k.readTree(delivery)
	k.inherit(delivery, time.Now())
	k.publish(delivery, time.Now())
}

// poke has the delivery looked at.
func (k *keeper) poke() {
	select {
	case k.pokes <- struct{}{}:
	default: // it will be
	}
}

// run looks at the delivery whenever something changes or is due, until nobody
// has to do anything in it any more.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		members, agents := k.desk.view.Changes(k.group) // before looking, so that none is missed
		due, done := k.step(ctx)
		if done || ctx.Err() != nil {
			return
		}
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-k.pokes:
		case <-members:
		case <-agents:
		case <-timer.C:
		}
	}
}

// step does all that is due, and returns when time alone makes something due.
func (k *keeper) step(ctx context.Context) (due time.Time, done bool) {
	now := time.Now()
	delivery, found := k.desk.view.Delivery(k.id)
	if !found {
		k.withdraw()
		return time.Time{}, true
	}
	due, err := k.work(ctx, delivery, now)
	switch {
	case errors.Is(err, store.ErrConflict):
		// Something else was written meanwhile: the view will show it.
		if err := k.desk.view.Sync(ctx); err == nil {
			return now, false
		}
		due = now.Add(retryPause)
	case err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced):
		k.warn(err, now)
		k.failedAt = now
		due = now.Add(retryPause)
	case err != nil: // the term is over, or about to be found so
		due = now.Add(retryPause)
	}
	k.announce()
	if delivery, found = k.desk.view.Delivery(k.id); found && !delivery.Running() && !now.Before(lingerUntil(delivery)) {
		k.withdraw()
		return time.Time{}, true
	}
	return due, false
}

// warnEvery is how often it is logged that something goes on to fail.
const warnEvery = 10 * time.Second

// warn logs why the delivery is not looked after: at once, and then now and then.
func (k *keeper) warn(err error, now time.Time) {
	if text := err.Error(); text != k.warning || now.Sub(k.warnedAt) >= warnEvery {
		k.warning, k.warnedAt = text, now
		k.desk.log.Warn("a delivery could not be looked after; trying again", "delivery", k.id, "error", err)
	}
}

// work decides the outcome, then the tree, then tells who has to do what.
func (k *keeper) work(ctx context.Context, delivery view.Delivery, now time.Time) (due time.Time, err error) {
	k.readTree(delivery)
	k.forgetGone(delivery, now)
	if delivery.Running() {
		delivery, due, err = k.conclude(ctx, delivery, now)
		switch {
		case errors.Is(err, store.ErrFull):
			due = k.goOnWithout(err, now)
		case err != nil:
			return due, err
		}
	}
	if delivery.Running() || now.Before(keepUntil(delivery)) && k.awaited(delivery) {
		var treeDue time.Time
		delivery, treeDue, err = k.arrange(ctx, delivery, now)
		switch {
		case errors.Is(err, store.ErrTooLarge): // too many have come late: who is in the tree goes on with it
			k.warn(err, now)
		case errors.Is(err, store.ErrFull):
			treeDue = moment.Soonest(treeDue, k.goOnWithout(err, now))
		case err != nil:
			return due, err
		}
		due = moment.Soonest(due, treeDue)
	}
	k.lighten(delivery)
	due = moment.Soonest(due, k.publish(delivery, now))
	if !delivery.Running() {
		settleDue, err := k.settle(ctx, delivery, now)
		if err != nil {
			return due, err
		}
		due = moment.Soonest(due, settleDue)
		due = moment.Soonest(due, lingerUntil(delivery))
	}
	return moment.Soonest(due, now.Add(idleStep)), nil
}

// goOnWithout has the delivery go on without what the store has no room for, and returns when that is tried again: who is served has to
// be told what there is to do all the same.
func (k *keeper) goOnWithout(full error, now time.Time) (due time.Time) {
	k.warn(full, now)
	k.failedAt = now
	return now.Add(fullPause)
}

// awaited tells whether somebody still waits for a delivery that has ended: only
// then does it matter who feeds whom.
func (k *keeper) awaited(delivery view.Delivery) bool {
	isSuperseded := k.superseded(delivery)
	return slices.ContainsFunc(k.receivers(delivery), func(member *groupv1.Member) bool {
		return k.mayComeAfterEnd(delivery, member) && (k.hasNode(placement.MemberID(member.GetName())) || !isSuperseded())
	})
}

// idleStep is how often a delivery is looked at although nothing seems due.
const idleStep = time.Minute

// conclude decides how the delivery stands, and writes who has failed and whether it has ended.
func (k *keeper) conclude(ctx context.Context, delivery view.Delivery, now time.Time) (view.Delivery, time.Time, error) {
	k.observe(delivery, now)
	v := decide(k.facts(delivery, now))
	var err error
	switch {
	case v.ended:
		err = k.desk.end(ctx, delivery, v, now)
	case len(v.failed) > 0:
		err = k.desk.fail(ctx, delivery, v.failed, now)
	default:
		return delivery, v.due, nil
	}
	if err != nil {
		return delivery, time.Time{}, err
	}
	again, found := k.desk.view.Delivery(k.id)
	if !found {
		return delivery, time.Time{}, store.ErrConflict
	}
	if v.alone {
		k.mu.Lock()
		k.progress.moved = now // as far as the others are concerned: they get on only now
		k.mu.Unlock()
	}
	if again.Running() {
		return again, now, nil // now that some have failed, the outcome may be another
	}
	return again, time.Time{}, nil
}

// observe notes what counts from when it is first seen: that the sender has gone, that all is sent, which members are not heard of, and
// that somebody minds that nothing moves.
func (k *keeper) observe(delivery view.Delivery, now time.Time) {
	var seen facts
	if !k.senderLives(delivery) {
		k.senderGone = cmp.Or(k.senderGone, now)
		seen.senderGone = k.senderGone
	}
	record := delivery.GetDelivery()
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.progress
	if record.GetSealed() && !p.sealed {
		p.sealedAt = now
	}
	p.sealed, p.length = record.GetSealed(), record.GetLength()
	p.noteSent(now)
	for _, participant := range delivery.GetMembers() {
		k.observeMember(delivery, participant.GetName(), now)
	}
	for _, name := range k.lateMembers(delivery) {
		k.observeMember(delivery, name, now)
	}
	seen.trouble, seen.connected = p.trouble(now), p.connected(now)
	k.unrest.look(seen.isQuiet(), now)
}

// observeMember notes since when a member is not heard of, which has neither left nor got a receipt.
func (k *keeper) observeMember(delivery view.Delivery, name string, now time.Time) {
	_, joined := k.desk.view.Member(k.group, name)
	switch end := k.desk.view.SessionEnd(k.group, name); {
	case joined:
		delete(k.progress.unknown, name)
	case k.finalState(delivery, name) != groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED,
		end == groupv1.MemberState_MEMBER_STATE_LEFT, end == groupv1.MemberState_MEMBER_STATE_EXPELLED:
	case k.progress.unknown[name].found.IsZero():
		k.progress.unknown[name] = absence{found: now, heard: k.desk.hearing.LastHeard(k.group, name)}
	}
}

// facts collects what the outcome is decided by, as it was last observed.
func (k *keeper) facts(delivery view.Delivery, now time.Time) facts {
	record := delivery.GetDelivery()
	f := facts{now: now, stream: record.GetSpec().GetLengthUnknown(), sealed: record.GetSealed(), groupGone: k.groupGone(delivery)}
	if limit := record.GetSpec().GetDeadline().AsDuration(); limit > 0 {
		f.deadline = record.GetCreateTime().AsTime().Add(limit)
	}
	if !k.senderLives(delivery) {
		f.senderGone = k.senderGone
	}
	f.busy = k.isBusy(now)
	_, group, _ := k.desk.view.Group(k.group)
	deaf := k.desk.hearing.LastCutOff() // until then more may have come to anybody
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.progress
	f.handedOver = p.handedOver() || isDatagrams(delivery)
	f.agentMoved = moment.Latest(p.agentMoved, moment.Latest(k.desk.started, deaf).Add(HandoverPatience)) // agents have to find this leader
	f.moved, f.trouble, f.connected = moment.Latest(p.moved, k.desk.started, k.failedAt, deaf), p.trouble(now), p.connected(now)
	f.full, f.unreached, f.apart = p.full(now), p.unreached(now), p.apart
	if !p.claimed {
		f.unclaimed = moment.Latest(k.made, deaf)
	}
	if f.stream {
		f.tooLong = checkSize(k.group, group.GetPolicy().GetLimits(), p.nodes[p.sender].reported().GetBytes())
	}
	if sender := p.nodes[p.sender]; sender.reported().GetReads() > 0 && !f.stream {
		f.readAt = moment.Latest(sender.gotOn, k.desk.started, k.failedAt, deaf)
	}
	f.minded = k.unrest.minded()
	for _, participant := range delivery.GetMembers() {
		m := k.member(delivery, participant.GetName(), now)
		if gotOn, says := p.nodes[placement.MemberID(m.name)].finishes(); says && m.hasAll && m.unknownSince.IsZero() && !f.stream {
			m.finishing = moment.Latest(gotOn, p.sealedAt, k.failedAt, deaf)
		}
		f.members = append(f.members, m)
	}
	for _, name := range k.lateMembers(delivery) {
		f.late = append(f.late, k.member(delivery, name, now))
	}
	return f
}

// lateMembers returns the members in the tree that joined after the start.
func (k *keeper) lateMembers(delivery view.Delivery) (names []string) {
	if k.tree == nil {
		return nil
	}
	atStart := make(map[string]bool)
	for _, participant := range delivery.GetMembers() {
		atStart[participant.GetName()] = true
	}
	for _, name := range k.tree.Names() {
		if id := placement.ParseID(name); id.Role == identity.Member && name != k.tree.Sender() && !atStart[id.Name] {
			names = append(names, id.Name)
		}
	}
	return names
}

// setTree puts a tree in force, some of whose nodes may be absent.
func (k *keeper) setTree(t *tree.Tree, absent []string, read store.Revision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.fedBy
	k.tree, k.treeRead, k.fedBy = t, read, feedings(t, absent, before, time.Now())
	for id, by := range k.fedBy {
		if node := k.progress.nodes[id]; node != nil && before[id] != by {
			node.missed, node.getsSince = 0, time.Time{} // what its feeder before had, and gave, is no measure of this one
		}
	}
	k.forgetBlame(before)
}

// member collects what is known of the delivery at one member.
func (k *keeper) member(delivery view.Delivery, name string, now time.Time) memberFacts {
	m := memberFacts{name: name, final: k.finalState(delivery, name)}
	id := placement.MemberID(name)
	m.hasAll, m.evicted, m.aloneSince = k.progress.hasAll(id), k.progress.isGivenUp(id, k.tree), k.progress.aloneSince(id, now)
	m.queuedSince = k.progress.queuedSince(id, now)
	if _, joined := k.desk.view.Member(k.group, name); joined {
		return m
	}
	if m.final != groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED {
		return m
	}
	switch k.desk.view.SessionEnd(k.group, name) {
	case groupv1.MemberState_MEMBER_STATE_LEFT:
		m.left = true
	case groupv1.MemberState_MEMBER_STATE_EXPELLED:
		m.expelled = true
	default:
		m.unknownSince = k.progress.unknown[name].found
	}
	return m
}

// groupGone reports whether the delivery's group was deleted, whatever has its name now.
func (k *keeper) groupGone(delivery view.Delivery) bool {
	_, group, found := k.desk.view.Group(k.group)
	return !found || group.GetIncarnation() != delivery.GetGroupIncarnation()
}

func (k *keeper) senderLives(delivery view.Delivery) bool {
	sender, joined := k.desk.view.Member(k.group, delivery.GetDelivery().GetSender())
	return joined && sender.GetIncarnation() == delivery.GetSenderIncarnation()
}

// finalState returns how a delivery ended at a member; unspecified if it has not, or if the member left and is back.
func (k *keeper) finalState(delivery view.Delivery, name string) groupv1.ReceiptState {
	receipt := receiptOf(delivery, name)
	if k.desk.isBack(delivery, receipt) {
		return groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED
	}
	return receipt.GetState()
}

// isBack reports whether a receipt is of a member that left and has joined again, as a service does that is started anew. It still has
// what came, and goes on from there.
func (d *Desk) isBack(delivery view.Delivery, receipt *groupv1.Receipt) bool {
	if receipt.GetState() != groupv1.ReceiptState_RECEIPT_STATE_FAILED || receipt.GetReason() != Left {
		return false
	}
	_, joined := d.view.Member(delivery.GetDelivery().GetGroup(), receipt.GetMember())
	return joined
}

// receiptOf returns what is written of a delivery at a member; nil if nothing is.
func receiptOf(delivery view.Delivery, name string) *groupv1.Receipt {
	if written, has := delivery.Receipts.Of(name); has {
		return written.Receipt
	}
	receipts := delivery.GetDelivery().GetReceipts()
	at, found := slices.BinarySearchFunc(receipts, name, func(r *groupv1.Receipt, name string) int {
		return cmp.Compare(r.GetMember(), name)
	})
	if !found {
		return nil
	}
	return receipts[at]
}

// isAtStart reports whether a member was joined when the delivery began: the record has these members, sorted by name.
func isAtStart(delivery view.Delivery, name string) bool {
	_, is := slices.BinarySearchFunc(delivery.GetMembers(), name, func(p *managerv1.Participant, name string) int {
		return cmp.Compare(p.GetName(), name)
	})
	return is
}

// announce tells those who watch that there is something new.
func (k *keeper) announce() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.announceLocked()
}

func (k *keeper) announceLocked() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// keepUntil returns until when agents keep an ended delivery for members that come late.
func keepUntil(delivery view.Delivery) time.Time {
	record := delivery.GetDelivery()
	end := record.GetEndTime().AsTime()
	useless := record.GetState() == groupv1.DeliveryState_DELIVERY_STATE_FAILED || record.GetReason() == Canceled ||
		!record.GetSealed() || record.GetSpec().GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_STREAM
	if useless {
		return end
	}
	return end.Add(record.GetSpec().GetKeep().AsDuration())
}

// lingerUntil returns until when anybody has to be told of an ended delivery.
func lingerUntil(delivery view.Delivery) time.Time {
	return moment.Latest(agentsUntil(delivery), membersUntil(delivery))
}

// membersUntil returns until when members that have nothing left to do are told of an ended delivery: not for as long as it is kept, which
// may be days, with thousands of others.
func membersUntil(delivery view.Delivery) time.Time {
	return delivery.GetDelivery().GetEndTime().AsTime().Add(lingerMember)
}

func agentsUntil(delivery view.Delivery) time.Time {
	return moment.Latest(keepUntil(delivery), delivery.GetDelivery().GetEndTime().AsTime().Add(lingerAgent))
}

// withdraw takes back all that anybody has to do.
func (k *keeper) withdraw() {
	k.desk.assign(k.group, k.id, slices.Collect(maps.Keys(k.assigned)), nil)
	clear(k.assigned)
}
