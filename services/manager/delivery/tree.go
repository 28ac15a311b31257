package delivery

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// readTree takes the tree from the record, if it is another than the one known.
func (k *keeper) readTree(delivery view.Delivery) {
	if delivery.TreeChanged == k.treeRead {
		return
	}
	k.setTree(nil, nil, delivery.TreeChanged)
	if delivery.Tree == nil {
		return
	}
	restored, err := k.network(delivery).Restore(decodeTree(delivery.Tree.Nodes()))
	if err != nil {
		k.desk.log.Error("a stored tree cannot be used; building another", "delivery", k.id, "error", err)
		return
	}
	k.setTree(restored, delivery.Tree.GetAbsent(), delivery.TreeChanged)
}

// network returns what the delivery can be spread over now.
func (k *keeper) network(delivery view.Delivery) placement.Network {
	n := placement.Network{
		Sender: &groupv1.Member{Name: delivery.GetDelivery().GetSender()}, Load: loadOf(delivery.GetDelivery().GetSpec()),
	}
	if sender, joined := k.desk.view.Member(k.group, n.Sender.GetName()); joined {
		n.Sender = sender.Member
	}
	_, group, found := k.desk.view.Group(k.group)
	n.LatencyBound = latencyBound(delivery.GetDelivery().GetSpec(), group.GetPolicy())
	if found {
		n.Measured = k.desk.measured(k.group, group.GetPolicy())
	}
	n.Agents = k.desk.agentRecords(k.group)
	return n
}

// latencyBound returns what a delivery's trees are built within: the smaller of its own bound and its group's, as that is now. Zero is no bound.
func latencyBound(spec *groupv1.DeliverySpec, policy *groupv1.Policy) time.Duration {
	own, ofGroup := spec.GetLatencyBound().AsDuration(), policy.GetLatencyBound().AsDuration()
	if own == 0 || ofGroup == 0 {
		return max(own, ofGroup)
	}
	return min(own, ofGroup)
}

// loadOf returns what a delivery's tree carries.
func loadOf(spec *groupv1.DeliverySpec) tree.Load {
	return tree.Load{Bytes: spec.GetLength(), Rate: spec.GetMaxBytesPerSecond()}
}

// rearrangement is a tree on its way to another.
type rearrangement struct {
	*keeper
	network   placement.Network // without the agents that are lost, banned or idle
	reserve   []*agentv1.Agent  // agents that are merely banned or idle: better than none
	tree      *tree.Tree
	absent    []string
	ended     bool
	cleared   bool // an agent has more uplink than the delivery's tree says: the next leader would take it as slow
	enlarging enlarging
	history
	findings
	now time.Time
	due time.Time
}

// rearrange makes the tree fit the nodes that are there, with the receivers that are to be fed, and writes it if it changes.
func (k *keeper) rearrange(ctx context.Context, delivery view.Delivery, receivers []*groupv1.Member, now time.Time) (view.Delivery, time.Time, error) {
	r := &rearrangement{
		keeper: k, network: k.network(delivery), tree: k.tree, absent: slices.Clone(delivery.Tree.GetAbsent()),
		ended: !delivery.Running(), findings: newFindings(), now: now,
	}
	r.network.Receivers = receivers
	r.measureAgain()
	r.renewUplinks()
	r.leaveOutBanned()
	r.replaceLost(delivery)
	r.bringBack()
	r.releaseMembers(delivery)
	r.admitMembers(delivery)
	r.moveDamaged(delivery)
	r.moveGivenUp(delivery)
	r.moveStarved(delivery)
	r.avoidHarm(delivery)
	r.avoidUnfed(delivery)
	r.lowerSlow(delivery)
	r.seekNearer(delivery)
	again, err := r.write(ctx, delivery)
	return again, r.due, err
}

// write writes the tree, if it has changed, and puts it in force.
func (r *rearrangement) write(ctx context.Context, delivery view.Delivery) (view.Delivery, error) {
	k := r.keeper
	if len(r.history) == 0 && !r.cleared {
		k.hold(r.findings)
		return delivery, nil
	}
	r.noteLate()
	version := delivery.Tree.GetVersion() + 1
	changes := r.after(delivery.Tree.GetChanges(), version, r.now)
	if err := k.writeTree(ctx, delivery, encodeTree(r.tree, version, r.absent, changes)); err != nil {
		k.unwritten = r.complaints
		return delivery, err
	}
	k.hold(r.findings)
	for _, change := range r.history {
		k.desk.metrics.treeChanged(change.GetCause())
	}
	again, found := k.desk.view.Delivery(k.id)
	if !found {
		return delivery, store.ErrConflict
	}
	k.setTree(r.tree, r.absent, again.TreeChanged)
	k.desk.log.Info("a delivery's tree changed", "delivery", k.id, "version", version, "why", cmp.Or(r.String(), "an agent is slow no longer"))
	return again, nil
}

// noteLate logs, and notes in the history, that a change takes the tree beyond its latency bound. The change is made all the same: a
// member that joins, or goes on without a lost agent, had better be served late than not at all.
func (r *rearrangement) noteLate() {
	late := r.tree.CheckLatency()
	if late == nil || len(r.history) == 0 || r.keeper.tree != nil && r.keeper.tree.CheckLatency() != nil {
		return
	}
	r.desk.log.Warn("a delivery's tree is beyond its latency bound", "delivery", r.id, "error", late)
	r.because(r.history[len(r.history)-1].GetCause(), "beyond the latency bound: "+late.Error())
}

// receivers returns the members that are to be fed, or may be.
func (k *keeper) receivers(delivery view.Delivery) []*groupv1.Member {
	if k.groupGone(delivery) {
		return nil
	}
	var receivers []*groupv1.Member
	for _, member := range k.desk.view.AllMembers(k.group) {
		final := k.finalState(delivery, member.GetName())
		waits := final == groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED || final == groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN
		if member.GetName() != delivery.GetDelivery().GetSender() && mayReceive(member) && waits {
			receivers = append(receivers, member)
		}
	}
	return receivers
}

func mayReceive(member *groupv1.Member) bool {
	return slices.Contains(member.GetRoles(), groupv1.Role_ROLE_RECEIVE)
}

// leaveOutBanned leaves out the agents that are lost, were lost lately, or are idle.
func (r *rearrangement) leaveOutBanned() {
	for name, until := range r.bannedUntil {
		if !r.now.Before(until) {
			delete(r.bannedUntil, name)
		}
	}
	var usable []*agentv1.Agent
	for _, agent := range r.network.Agents {
		_, banned := r.bannedUntil[agent.GetName()]
		switch {
		case !placement.Usable(agent) || !r.desk.usable(agent, r.now):
		case banned, r.desk.isIdle(agent.GetName(), r.group, r.now):
			r.reserve = append(r.reserve, agent)
		default:
			usable = append(usable, agent)
		}
	}
	r.network.Agents = usable
}

// build makes a tree anew; if need be beyond the latency bound, or with agents that were lost lately, and at worst with those that move
// nothing. Once the delivery has ended it is for those alone who are fed already: admitMembers takes in others, as far as agents have
// something for them.
func (r *rearrangement) build() (*tree.Tree, error) {
	network := r.network
	if r.ended {
		network.Receivers = slices.DeleteFunc(slices.Clone(network.Receivers), func(member *groupv1.Member) bool {
			return r.tree == nil || !r.isFed(member)
		})
	}
	isIdle := func(agent *agentv1.Agent) bool { return r.desk.isIdle(agent.GetName(), r.group, r.now) }
	built, err := network.BuildLate()
	for _, reserve := range [][]*agentv1.Agent{slices.DeleteFunc(slices.Clone(r.reserve), isIdle), r.reserve} {
		if !errors.Is(err, placement.ErrNoAgent) {
			break
		}
		network.Agents = reserve
		built, err = network.BuildLate()
	}
	return built, err
}

func (r *rearrangement) isFed(member *groupv1.Member) bool {
	_, is := r.tree.Node(placement.MemberID(member.GetName()).String())
	return is
}

// agents returns the agents of the tree that are not absent.
func (r *rearrangement) agents() (names []string) {
	if r.tree == nil {
		return nil
	}
	for _, name := range r.tree.Names() {
		if node, _ := r.tree.Node(name); node.Kind == tree.Agent && !slices.Contains(r.absent, name) {
			names = append(names, name)
		}
	}
	return names
}

// replaceLost takes out the agents that are lost.
func (r *rearrangement) replaceLost(delivery view.Delivery) {
	lost := make(map[string]string) // the cause, by name
	r.due = moment.Soonest(r.due, r.now.Add(idlePatience))
	for _, name := range r.agents() {
		id := placement.ParseID(name)
		seen, by := r.see(id)
		seen.idle = r.idleSince(id, len(r.network.Agents) > 0)
		if isDatagrams(delivery) { // it never waits for room in a cache
			seen.fed = time.Time{}
		}
		cause, due := seen.lost(r.now)
		if cause == "" {
			r.due = moment.Soonest(r.due, due)
			continue
		}
		if cause == causeBlamed {
			r.believed[by] = r.now
			if r.movesInstead(by, id, delivery) {
				continue
			}
		}
		lost[name] = cause
	}
	isLost := func(agent *agentv1.Agent) bool { return lost[placement.AgentID(agent.GetName()).String()] != "" }
	r.network.Agents = slices.DeleteFunc(r.network.Agents, isLost)
	r.reserve = slices.DeleteFunc(r.reserve, isLost)
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		r.replace(name, lost[name], lost)
	}
}

// replace takes one agent out. Where there is none to do its work, its place is
// kept: a delivery waits rather than fails.
func (r *rearrangement) replace(name, cause string, lost map[string]string) {
	if _, has := r.tree.Node(name); !has {
		return // replacing another agent made a tree without it
	}
	others := slices.DeleteFunc(r.agents(), func(other string) bool { return lost[other] != "" && other != name })
	banned := banTime
	if cause == causeIdle {
		banned = r.foundIdle(placement.ParseID(name))
	}
	out := func(why string) {
		r.because(cause, name+why)
		r.ban(name, banned)
		if cause == causeIdle {
			r.doubtAll(name, r.keeper.tree)
		}
	}
	if len(others) > 1 {
		if without, err := r.network.Remeasured(r.tree).Without(name); err == nil {
			r.tree = without
			out(" is out")
			return
		}
	}
	if built, err := r.build(); err == nil {
		r.tree, r.absent = built, nil
		out(" is out, and the tree made anew")
		return
	}
	if cause != causeOffline && cause != causeClosed {
		return // it is there, and there is no better
	}
	r.absent = append(r.absent, name)
	r.because(cause, name+" is waited for: nobody else can do its work")
}

// bringBack lets agents of the tree that were absent do their work again, or
// others in their place. Without a tree it makes one.
func (r *rearrangement) bringBack() {
	if len(r.absent) == 0 && r.tree != nil {
		return
	}
	r.absent = slices.DeleteFunc(r.absent, func(name string) bool {
		seen := r.desk.seen(placement.ParseID(name).Name)
		cause, _ := seen.lost(r.now)
		back := cause == "" && seen.attached
		if back {
			r.because(causeReturned, name+" is back")
		}
		return back
	})
	if len(r.agents()) > 0 {
		r.removeAbsent()
		return
	}
	// An agent that is online but not attached was just lost, or is about to attach.
	elsewhere := func(agent *agentv1.Agent) bool { return !r.desk.seen(agent.GetName()).attached }
	r.network.Agents = slices.DeleteFunc(r.network.Agents, elsewhere)
	r.reserve = slices.DeleteFunc(r.reserve, elsewhere)
	if built, err := r.build(); err == nil {
		r.tree, r.absent = built, nil
		r.because(causeReturned, "others are there, and the tree made anew")
	}
}

// mayReshape reports whether a tree may be made better: it is in use, nobody is missing, and nothing else changes now.
func (r *rearrangement) mayReshape(delivery view.Delivery) bool {
	return delivery.Running() && r.tree != nil && len(r.history) == 0 && len(r.absent) == 0
}

// removeAbsent takes out the absent agents, now that others can do their work. It bans none: all were gone, and who is back can be used.
func (r *rearrangement) removeAbsent() {
	for _, name := range r.absent {
		if without, err := r.tree.Without(name); err == nil {
			r.tree = without
			r.because(causeReturned, name+" is out, as others are there")
		}
	}
	r.absent = nil
}

// releaseMembers takes out the members that cannot be fed any more: an agent that waits for their acknowledgements would wait for ever.
func (r *rearrangement) releaseMembers(delivery view.Delivery) {
	if !delivery.Running() || r.tree == nil {
		return
	}
	for _, name := range r.tree.Names() {
		id := placement.ParseID(name)
		if id.Role != identity.Member || name == r.tree.Sender() {
			continue
		}
		_, joined := r.desk.view.Member(r.group, id.Name)
		switch final := r.finalState(delivery, id.Name); {
		case final == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE:
			continue
		case joined && final != groupv1.ReceiptState_RECEIPT_STATE_FAILED:
			continue
		}
		if without, err := r.tree.Without(name); err == nil {
			r.tree = without
			r.because(causeGone, name+" is not fed any more")
		}
	}
}

// admitMembers takes in the members that are not fed yet.
func (r *rearrangement) admitMembers(delivery view.Delivery) {
	if len(r.agents()) == 0 {
		return // they wait for an agent as well
	}
	isSuperseded, join := r.superseded(delivery), r.network.Joining()
	for _, member := range r.network.Receivers {
		if r.isFed(member) {
			continue
		}
		if !delivery.Running() && (!r.mayComeAfterEnd(delivery, member) || isSuperseded()) {
			continue
		}
		with, err := join(r.tree, member)
		if err != nil {
			r.desk.log.Warn("a member cannot be fed", "delivery", r.id, "member", member.GetName(), "error", err)
			continue
		}
		if !delivery.Running() && !r.isKept(delivery, with, member.GetName()) {
			continue
		}
		r.tree = with
		r.because(causeJoined, placement.MemberID(member.GetName()).String()+" is fed from now on")
	}
}

// mayComeAfterEnd tells whether a member may still get an ended delivery: it joined late, was not heard of when it ended, or had left
// by then.
func (k *keeper) mayComeAfterEnd(delivery view.Delivery, member *groupv1.Member) bool {
	switch k.finalState(delivery, member.GetName()) {
	case groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN, groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED:
		return true
	}
	return !isAtStart(delivery, member.GetName())
}

// isKept reports whether an agent above a member still has all that the member lacks of an ended delivery: the sender is gone, and nobody else
// would bring it.
func (k *keeper) isKept(delivery view.Delivery, in *tree.Tree, member string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := placement.MemberID(member)
	has := k.progress.nodes[id].reported().GetBytes()
	for at, fed := in.Parent(id.String()); fed; at, fed = in.Parent(at) {
		report := k.progress.nodes[placement.ParseID(at)].reported()
		upTo, held, length := report.GetBytes(), report.GetHeldBytes(), delivery.GetDelivery().GetLength()
		hasEnd := length > 0 || report.GetEnded() // an agent that began anew has all bytes of an empty object, but does not know it
		if upTo >= length && hasEnd && upTo-min(held, upTo) <= has {
			return true
		}
	}
	return false
}
