package delivery

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/algo/moment"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// capability is a signed statement that a node holds.
type capability struct {
	duty   identity.Duty
	token  []byte
	issued time.Time
}

// left returns for how long it need not be renewed: by the date, as those who check it go by that. Where the date was set, or the machine
// suspended, no other clock knows that it is too old, or not yet in force.
func (c capability) left(now time.Time) time.Duration {
	if age := now.Round(0).Sub(c.issued.Round(0)); age >= 0 {
		return identity.CapabilityRenewal - age
	}
	return 0
}

// publish tells everybody whose duty changed, and returns when the next capability is due.
func (k *keeper) publish(delivery view.Delivery, now time.Time) (due time.Time) {
	next := k.assignments(delivery, now)
	var changed []identity.ID
	for id, assignment := range next {
		before, had := k.assigned[id]
		if had {
			// A node is told only of changes that concern it: another version alone is none.
			version := assignment.GetTreeVersion()
			assignment.TreeVersion = before.GetTreeVersion()
			if proto.Equal(assignment, before) {
				next[id] = before
				continue
			}
			assignment.TreeVersion = version
		}
		changed = append(changed, id)
	}
	for id := range k.assigned {
		if _, has := next[id]; !has {
			changed = append(changed, id)
			delete(k.capabilities, id)
		}
	}
	k.assigned = next
	if len(changed) > 0 {
		k.count(changed, next)
		k.desk.assign(k.group, k.id, changed, next)
	}
	for _, held := range k.capabilities {
		due = moment.Soonest(due, now.Add(max(held.left(now), fullPause))) // that could not be signed, as with credentials that cannot be read
	}
	if !delivery.Running() && now.Before(agentsUntil(delivery)) {
		due = moment.Soonest(due, agentsUntil(delivery))
	}
	return due
}

// count notes how many directives go to the nodes of each cluster.
func (k *keeper) count(changed []identity.ID, next map[identity.ID]*groupv1.Assignment) {
	if k.tree == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range changed {
		if node, has := k.tree.Node(id.String()); has && next[id] != nil {
			k.told[node.Cluster]++
			k.desk.metrics.directives.Inc()
		}
	}
}

// assignments returns what everybody has to do now.
func (k *keeper) assignments(delivery view.Delivery, now time.Time) map[identity.ID]*groupv1.Assignment {
	next := make(map[identity.ID]*groupv1.Assignment)
	record := delivery.GetDelivery()
	waiting := k.noteWaiting(delivery, now)
	if k.tree != nil {
		for id, directive := range placement.Directives(k.tree, delivery.Tree.GetAbsent(), k.addresses) {
			assignment := k.assignment(delivery, directive.Duty)
			assignment.Parent, assignment.Children = directive.Parent, directive.Children
			if directive.Duty == groupv1.Duty_DUTY_RELAY {
				assignment.Children = slices.DeleteFunc(directive.Children, func(child *groupv1.Neighbour) bool {
					return !waiting[identity.Named(child)]
				})
				if directive.Parent.GetRole() == string(identity.Agent) && !waiting[id] { // whose door is closed then
					assignment.Parent = nil
				}
			}
			next[id] = assignment
		}
	}
	for _, participant := range delivery.GetMembers() { // those that failed are in the tree no more
		if id := placement.MemberID(participant.GetName()); next[id] == nil {
			next[id] = k.assignment(delivery, groupv1.Duty_DUTY_RECEIVE)
		}
	}
	if sender := placement.MemberID(record.GetSender()); next[sender] == nil {
		next[sender] = k.assignment(delivery, groupv1.Duty_DUTY_SEND)
	}
	for id, assignment := range next {
		assignment.Late = assignment.GetDuty() == groupv1.Duty_DUTY_RECEIVE && !isAtStart(delivery, id.Name)
		if !k.finish(delivery, id, assignment, now) {
			delete(next, id)
			continue
		}
	}
	k.certify(next, now)
	return next
}

// waiting returns the members of the tree that are not complete, and all nodes that feed them. A member that is complete never comes again: an
// agent that begins anew, or takes over another's children, would wait for its acknowledgements for ever. Of a delivery that has ended nobody
// waits who is not joined, or has failed: for them agents would keep what others need the room of.
func (k *keeper) waiting(delivery view.Delivery) map[identity.ID]bool {
	waiting := make(map[identity.ID]bool)
	for _, name := range k.tree.Names() {
		id := placement.ParseID(name)
		if id.Role != identity.Member || !k.isWaitedFor(delivery, id.Name) {
			continue
		}
		for at, fed := name, true; fed && !waiting[placement.ParseID(at)]; at, fed = k.tree.Parent(at) {
			waiting[placement.ParseID(at)] = true
		}
	}
	return waiting
}

// noteWaiting returns what waiting does, and has it hold for how the delivery is judged until nodes are told again; nil without a tree.
func (k *keeper) noteWaiting(delivery view.Delivery, now time.Time) (waiting map[identity.ID]bool) {
	if k.tree != nil {
		waiting = k.waiting(delivery)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.progress.await(waiting, now)
	return waiting
}

func (k *keeper) isWaitedFor(delivery view.Delivery, member string) bool {
	state := k.finalState(delivery, member)
	_, joined := k.desk.view.Member(k.group, member)
	return state != groupv1.ReceiptState_RECEIPT_STATE_COMPLETE && (delivery.Running() || joined && state != groupv1.ReceiptState_RECEIPT_STATE_FAILED)
}

// assignment returns what a node has to do. Its version is that of the tree's record, not of the steps after it: a manager of an earlier
// version, which may lead meanwhile and write nothing, knows only the record, and agents do not listen to a lower version than they had.
func (k *keeper) assignment(delivery view.Delivery, duty groupv1.Duty) *groupv1.Assignment {
	record := delivery.GetDelivery()
	return &groupv1.Assignment{
		Delivery: k.id, Group: k.group, Duty: duty, TreeVersion: delivery.Tree.Record(), Spec: record.GetSpec(),
		Sender: record.GetSender(), Sealed: record.GetSealed(), Length: record.GetLength(), Root: record.GetRoot(),
		Datagrams: record.GetDatagrams(), CreateTime: timestamppb.New(orderTime(delivery)),
	}
}

// finish says in an assignment whether the node is done; it returns false where
// there is nothing to tell the node any more.
func (k *keeper) finish(delivery view.Delivery, id identity.ID, assignment *groupv1.Assignment, now time.Time) (keep bool) {
	record := delivery.GetDelivery()
	ended := !delivery.Running()
	if id.Role == identity.Agent {
		if ended {
			assignment.Ended, assignment.Reason, assignment.KeepUntil = true, record.GetReason(), timestamppb.New(keepUntil(delivery))
		}
		return !ended || now.Before(agentsUntil(delivery))
	}
	receipt := receiptOf(delivery, id.Name)
	if k.desk.isBack(delivery, receipt) {
		receipt = nil
	}
	switch {
	case assignment.GetDuty() == groupv1.Duty_DUTY_SEND:
		assignment.Ended, assignment.Reason = ended, record.GetReason()
	case receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_FAILED:
		assignment.Ended, assignment.Reason, assignment.Detail = true, receipt.GetReason(), receipt.GetDetail()
	case ended && k.mayGoOn(delivery, id, receipt, now):
		return true
	default:
		assignment.Ended = ended
		if receipt.GetState() != groupv1.ReceiptState_RECEIPT_STATE_COMPLETE {
			assignment.Reason, assignment.Detail = whyOver(delivery)
		}
	}
	return !ended || now.Before(membersUntil(delivery))
}

// whyOver says why nothing more of a delivery comes to a member that has no receipt of it, as one that came late. It is empty if the member may
// still have all: what was handed over comes to its end.
func whyOver(delivery view.Delivery) (reason, detail string) {
	record := delivery.GetDelivery()
	switch {
	case record.GetReason() != "":
		return record.GetReason(), delivery.GetDetail()
	case record.GetState() == groupv1.DeliveryState_DELIVERY_STATE_FAILED:
		return Canceled, "the delivery ended: it failed at all members that it began with"
	}
	return "", ""
}

// mayGoOn reports whether a member is still fed although the delivery has ended.
func (k *keeper) mayGoOn(delivery view.Delivery, id identity.ID, receipt *groupv1.Receipt, now time.Time) bool {
	done := receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE
	if k.tree == nil || done || !now.Before(keepUntil(delivery)) {
		return false
	}
	_, inTree := k.tree.Node(id.String())
	return inTree
}

func (k *keeper) addresses(agent string) []string {
	record, known := k.desk.view.Agent(agent)
	if !known {
		return nil
	}
	return record.GetAddresses()
}

// certify gives each node its capability, a fresh one if half of its life is over. A member that has nothing left to do keeps what it has.
func (k *keeper) certify(next map[identity.ID]*groupv1.Assignment, now time.Time) {
	var statements []identity.Capability
	for id, assignment := range next {
		held, has := k.capabilities[id]
		duty := identity.Duty(assignment.GetDuty())
		switch {
		case has && held.duty == duty && held.left(now) > 0:
			assignment.Capability = held.token
		case assignment.GetEnded() && id.Role == identity.Member:
			delete(k.capabilities, id)
		default:
			assignment.Capability = held.token // in case that none can be signed
			statements = append(statements, identity.Capability{
				Holder: id, Group: k.group, Delivery: k.id, Duty: duty, Issued: now, Expires: now.Add(identity.CapabilityLifetime),
			})
		}
	}
	tokens, err := k.desk.sign(statements)
	if err != nil {
		k.desk.log.Error("capabilities could not be signed", "delivery", k.id, "error", err)
	}
	for i, token := range tokens {
		if of := statements[i]; token != nil {
			k.capabilities[of.Holder], next[of.Holder].Capability = capability{of.Duty, token, now}, token
		}
	}
}

// sign signs statements, on all processors: a new leader serves nobody until all nodes of all deliveries have theirs. The token of one that cannot
// be signed is nil.
func (d *Desk) sign(statements []identity.Capability) (tokens [][]byte, err error) {
	if len(statements) == 0 {
		return nil, nil
	}
	credentials, err := d.signer.Credentials()
	if err != nil {
		return nil, err
	}
	signer, err := identity.NewSigner(credentials)
	if err != nil {
		return nil, err
	}
	tokens = make([][]byte, len(statements))
	var signing errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		signing.Go(func() (wrong error) {
			for i := first; i < len(statements); i += workers {
				token, err := signer.Sign(statements[i])
				tokens[i], wrong = token, cmp.Or(wrong, err)
			}
			return wrong
		})
	}
	return tokens, signing.Wait()
}
