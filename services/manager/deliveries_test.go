package manager_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

const megabyte = 1 << 20

// The main way: created, assigned, sealed, received, complete.
func TestDeliveryCompletes(t *testing.T) {
	m, p := startParty(t)
	agent := p.agent(t, "a1", "node-1", "zone-a")
	sender := p.join(t, "s", "node-1", send)
	one, two := p.join(t, "m1", "node-1", receiveToo), p.join(t, "m2", "node-2", receiveToo)
	id := p.create(t, sender, file(megabyte))

	begun := sender.has(t, id, "a sender with an ingress", children("a1"))
	if got := begun.GetChildren()[0].GetAddresses(); len(got) != 1 || begun.GetDuty() != groupv1.Duty_DUTY_SEND {
		t.Errorf("the sender has %v, want the agent's address", begun)
	}
	relay := agent.has(t, id, "a relay of both members", children("m1", "m2"))
	if relay.GetParent().GetName() != "s" || len(relay.GetParent().GetAddresses()) != 0 {
		t.Errorf("the agent's parent is %v, want the sender, who dials", relay.GetParent())
	}
	for _, n := range []*node{one, two} {
		a := n.has(t, id, "fed by the agent", fedBy("a1"))
		if a.GetDuty() != groupv1.Duty_DUTY_RECEIVE || len(a.GetParent().GetAddresses()) != 1 {
			t.Errorf("%s has %v", n.name, a)
		}
		checkCapability(t, p, a, "member", n.name)
	}
	checkCapability(t, p, begun, "member", "s")
	checkCapability(t, p, relay, "agent", "a1")
	if spec := relay.GetSpec(); spec.GetControlMode() != groupv1.ControlMode_CONTROL_MODE_HOP || spec.GetAckLevel() != groupv1.AckLevel_ACK_LEVEL_DURABLE ||
		spec.GetDataPlane() != groupv1.DataPlane_DATA_PLANE_TLS || spec.GetKeep().AsDuration() != 10*time.Minute ||
		spec.GetSlowMember().GetAction() != groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH {
		t.Errorf("the spec was decided as %v", spec)
	}

	one.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte / 2})
	p.becomes(t, id, "half received", 5*time.Second, func(d *groupv1.Delivery) bool {
		return receipt(d, "m1").GetBytes() == megabyte/2 && receipt(d, "m1").GetParent() == "a1"
	})
	if err := p.complete(t, one, id, megabyte); err == nil {
		t.Error("a receipt was taken before the delivery was sealed")
	}
	sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte})
	p.seal(t, sender, id, megabyte)
	one.has(t, id, "told of the seal", func(a *groupv1.Assignment) bool { return a.GetSealed() && a.GetLength() == megabyte })
	agent.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte, MaxCachedBytes: megabyte / 4, Children: []*groupv1.ChildReport{
		{Name: "m1", Connected: true, SentBytes: megabyte}, {Name: "m2", Connected: true, SentBytes: megabyte},
	}})
	p.mustComplete(t, one, id, megabyte)
	p.mustComplete(t, one, id, megabyte) // repeated
	if d := p.get(t, id); d.GetCompleteCount() != 1 || d.GetState() != groupv1.DeliveryState_DELIVERY_STATE_RUNNING {
		t.Errorf("with one of two receipts: %v", d)
	}
	p.mustComplete(t, two, id, megabyte)
	d := p.becomes(t, id, "complete", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
	if d.GetCompleteCount() != 2 || d.GetMemberCount() != 2 || d.GetSentBytes() != megabyte || d.GetEndTime() == nil {
		t.Errorf("it ended as %v", d)
	}
	if r := receipt(d, "m2"); r.GetState() != groupv1.ReceiptState_RECEIPT_STATE_COMPLETE || r.GetStretch() < 1 || r.GetElapsed().AsDuration() <= 0 {
		t.Errorf("the receipt is %v", r)
	}
	agent.has(t, id, "told to keep it", func(a *groupv1.Assignment) bool {
		return a.GetEnded() && a.GetKeepUntil().AsTime().After(time.Now().Add(9*time.Minute))
	})
	for _, n := range []*node{sender, one, two} {
		n.has(t, id, "told of the end", func(a *groupv1.Assignment) bool { return a.GetEnded() && a.GetReason() == "" })
	}
	measured := p.becomes(t, id, "measured", 5*time.Second, func(d *groupv1.Delivery) bool { return len(d.GetMeasurements().GetLinks()) == 3 })
	if got := measured.GetMeasurements(); got.GetSendBytesPerSecond() == 0 || got.GetReceptionBytesPerSecond() == 0 ||
		got.GetEffectiveThroughput() <= 0 || len(got.GetCaches()) != 1 || got.GetCaches()[0].GetRatio() != 0.25 {
		t.Errorf("measured as %v", got)
	}
	for name, want := range map[string]uint64{"reception_bytes_per_second": 1, "effective_throughput_ratio": 1, "link_bytes_per_second": 3, "cache_ratio": 1} {
		eventually(t, 30*time.Second, "counted: "+name, func() bool { return observed(t, m, "groupcast_manager_delivery_"+name) == want })
	}
}

// pair is a party with two zones, an agent and a member in each, and a sender in the first.
type pair struct {
	*party
	sender, a1, a2, m1, m2 *node
}

func newPair(t *testing.T, p *party) *pair {
	t.Helper()
	return &pair{
		party: p, a1: p.agent(t, "a1", "node-1", "zone-a"), a2: p.agent(t, "a2", "node-2", "zone-b"),
		sender: p.join(t, "s", "node-1", send), m1: p.join(t, "m1", "node-1", receiveToo), m2: p.join(t, "m2", "node-2", receiveToo),
	}
}

// passOn has all nodes report that they have all bytes.
func (p *pair) passOn(id string, length uint64) {
	p.sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: length})
	p.a1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: length, HeldBytes: length, Children: []*groupv1.ChildReport{
		{Name: "a2", Connected: true, SentBytes: length}, {Name: "m1", Connected: true, SentBytes: length},
	}})
	p.a2.report(&groupv1.DeliveryReport{Delivery: id, Bytes: length, Children: []*groupv1.ChildReport{{Name: "m2", Connected: true, SentBytes: length}}})
}

func TestDeliveryWhoseSenderIsLost(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	lost := p.create(t, p.sender, file(megabyte))
	safe := p.create(t, p.sender, file(megabyte))
	p.passOn(safe, megabyte)
	p.seal(t, p.sender, safe, megabyte)
	p.leave(t, p.sender)
	d := p.becomes(t, lost, "failed", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_FAILED))
	if r := receipt(d, "m1"); r.GetReason() != "sender_lost" || d.GetReason() != "sender_lost" || d.GetFailedCount() != 2 {
		t.Errorf("it ended as %v", d)
	}
	p.m1.has(t, lost, "told why", func(a *groupv1.Assignment) bool { return a.GetEnded() && a.GetReason() == "sender_lost" })
	// The other goes on: its agent has all.
	p.mustComplete(t, p.m1, safe, megabyte)
	p.mustComplete(t, p.m2, safe, megabyte)
	p.becomes(t, safe, "complete", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
}

func TestDeliveryDeadline(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	spec := file(megabyte)
	spec.Deadline = durationpb.New(2 * time.Second)
	id := p.create(t, p.sender, spec)
	p.passOn(id, megabyte)
	p.seal(t, p.sender, id, megabyte)
	p.mustComplete(t, p.m1, id, megabyte)
	p.m2.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 77})
	d := p.becomes(t, id, "partial", 10*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_PARTIAL))
	if r := receipt(d, "m2"); r.GetReason() != "deadline" || r.GetBytes() != 77 || d.GetReason() != "deadline" {
		t.Errorf("it ended as %v", d)
	}
	if err := p.complete(t, p.m2, id, megabyte); err != nil {
		t.Errorf("a receipt that comes too late: %v", err)
	}
	if r := receipt(p.get(t, id), "m2"); r.GetReason() != "deadline" {
		t.Errorf("what was noted first became %v", r)
	}
}

func TestDeliveryCanceled(t *testing.T) {
	t.Parallel()
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.a2.has(t, id, "a relay", fedBy("a1"))
	answer, err := p.deliveries.CancelDelivery(t.Context(), &groupv1.CancelDeliveryRequest{Delivery: id[:8]})
	if err != nil || answer.GetDelivery().GetState() != groupv1.DeliveryState_DELIVERY_STATE_FAILED || answer.GetDelivery().GetReason() != "canceled" {
		t.Fatalf("canceled as %v %v", answer, err)
	}
	for _, n := range []*node{p.sender, p.m1, p.m2} {
		n.has(t, id, "told that it is canceled", func(a *groupv1.Assignment) bool { return a.GetEnded() && a.GetReason() == "canceled" })
	}
	p.a2.has(t, id, "told to drop it", func(a *groupv1.Assignment) bool { return a == nil })
	if _, err := p.deliveries.CancelDelivery(t.Context(), &groupv1.CancelDeliveryRequest{Delivery: id}); err != nil {
		t.Errorf("canceled again: %v", err)
	}
	if _, err := p.deliveries.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{
		Delivery: id, Sender: "s", Incarnation: p.sender.member.GetIncarnation(), Length: megabyte, Root: root(1),
	}); managertest.Reason(err) != "DELIVERY_ENDED" {
		t.Errorf("sealed after the end: %v", err)
	}
}

func TestDeliveryMembersFail(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	m3 := p.join(t, "m3", "node-2", receiveToo)
	id := p.create(t, p.sender, file(megabyte))
	p.passOn(id, megabyte)
	p.seal(t, p.sender, id, megabyte)
	p.leave(t, p.m1)
	p.becomes(t, id, "without m1", 5*time.Second, func(d *groupv1.Delivery) bool { return receipt(d, "m1").GetReason() == "left" })
	p.a1.has(t, id, "without m1", children("a2"))
	_, err := p.deliveries.RecordReceipt(t.Context(), &groupv1.RecordReceiptRequest{
		Delivery: id, Member: "m3", Incarnation: m3.member.GetIncarnation(),
		State: groupv1.ReceiptState_RECEIPT_STATE_FAILED, Reason: "no_room", Detail: "the disk is full", Bytes: 4096,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.mustComplete(t, p.m2, id, megabyte)
	d := p.becomes(t, id, "partial", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_PARTIAL))
	if r := receipt(d, "m3"); r.GetReason() != "no_room" || r.GetDetail() == "" || r.GetBytes() != 4096 || d.GetCompleteCount() != 1 || d.GetFailedCount() != 2 {
		t.Errorf("it ended as %v", d)
	}
}

func TestDeliveryGivenUpBySender(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	for _, reason := range []string{"source_changed", "no_room", "failed"} {
		id := p.create(t, p.sender, file(megabyte))
		_, err := p.deliveries.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{
			Delivery: id, Sender: "s", Incarnation: p.sender.member.GetIncarnation(), Reason: reason,
		})
		if err != nil {
			t.Fatal(err)
		}
		d := p.becomes(t, id, "failed", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_FAILED))
		if d.GetReason() != reason || receipt(d, "m1").GetReason() != reason {
			t.Errorf("given up for %s, it ended as %v", reason, d)
		}
	}
}

func TestDeliverySlowMemberEvicted(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.a2.report(&groupv1.DeliveryReport{Delivery: id, Children: []*groupv1.ChildReport{{Name: "m2", AckedOffset: 99, Evicted: true}}})
	p.becomes(t, id, "without m2", 5*time.Second, func(d *groupv1.Delivery) bool { return receipt(d, "m2").GetReason() == "slow" })
	p.m2.has(t, id, "told so", func(a *groupv1.Assignment) bool { return a.GetEnded() && a.GetReason() == "slow" })
}

// Whether a child is too slow is for the agent that feeds it to say.
func TestDeliveryEvictedByAStranger(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.a1.report(&groupv1.DeliveryReport{Delivery: id, Children: []*groupv1.ChildReport{{Name: "m1", Evicted: true}, {Name: "m2", Evicted: true}}})
	d := p.becomes(t, id, "without m1", 5*time.Second, func(d *groupv1.Delivery) bool { return receipt(d, "m1").GetReason() == "slow" })
	if r := receipt(d, "m2"); r.GetState() != groupv1.ReceiptState_RECEIPT_STATE_RECEIVING {
		t.Errorf("m2, which another agent feeds, is %v", r)
	}
}

func TestDeliveryLateMembers(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	early := p.join(t, "late1", "node-2", receiveToo)
	early.has(t, id, "fed by its node's agent", fedBy("a2"))
	p.passOn(id, megabyte)
	p.seal(t, p.sender, id, megabyte)
	p.mustComplete(t, p.m1, id, megabyte)
	p.mustComplete(t, p.m2, id, megabyte)
	d := p.becomes(t, id, "complete without late1", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
	if r := receipt(d, "late1"); !r.GetLate() || r.GetState() != groupv1.ReceiptState_RECEIPT_STATE_RECEIVING || d.GetMemberCount() != 2 {
		t.Errorf("it ended as %v", d)
	}
	early.has(t, id, "still to receive", func(a *groupv1.Assignment) bool { return a != nil && !a.GetEnded() })
	p.mustComplete(t, early, id, megabyte)
	early.has(t, id, "done", func(a *groupv1.Assignment) bool { return a.GetEnded() && a.GetReason() == "" })
	// A member joins while the agents keep the object, on a machine whose agent was not used.
	p.agent(t, "a3", "node-3", "zone-b")
	after := p.join(t, "late2", "node-3", receiveToo)
	a := after.has(t, id, "fed by its node's agent", fedBy("a3"))
	if !a.GetSealed() || a.GetEnded() || a.GetDuty() != groupv1.Duty_DUTY_RECEIVE {
		t.Errorf("it has %v", a)
	}
	p.mustComplete(t, after, id, megabyte)
	d = p.get(t, id)
	if r := receipt(d, "late2"); r.GetState() != groupv1.ReceiptState_RECEIPT_STATE_COMPLETE || !r.GetLate() || d.GetCompleteCount() != 2 {
		t.Errorf("with late members it is %v", d)
	}
}

// A member that came late to a delivery that fails or is canceled is told so at once, and why.
func TestDeliveryLateMemberIsToldWhy(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	canceled, failed, lost := p.create(t, p.sender, file(megabyte)), p.create(t, p.sender, file(megabyte)), p.create(t, p.sender, file(megabyte))
	late := p.join(t, "late", "node-2", receiveToo)
	for _, id := range []string{canceled, failed, lost} {
		late.has(t, id, "fed by its node's agent", fedBy("a2"))
	}
	if _, err := p.deliveries.CancelDelivery(t.Context(), &groupv1.CancelDeliveryRequest{Delivery: canceled}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{p.m1, p.m2} {
		_, err := p.deliveries.RecordReceipt(t.Context(), &groupv1.RecordReceiptRequest{
			Delivery: failed, Member: n.name, Incarnation: n.member.GetIncarnation(), State: groupv1.ReceiptState_RECEIPT_STATE_FAILED, Reason: "no_room",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p.becomes(t, failed, "failed", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_FAILED)) // before its sender is lost, too
	p.leave(t, p.sender)
	for id, want := range map[string]string{canceled: "canceled", failed: "canceled", lost: "sender_lost"} {
		late.has(t, id, "told "+want, func(a *groupv1.Assignment) bool {
			return a.GetEnded() && a.GetReason() == want && a.GetDetail() != ""
		})
	}
}

// A member that joins when the agents no longer keep an ended delivery is not told to receive it: nobody would send it.
func TestDeliveryNoLongerKept(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	other := file(megabyte)
	other.Name = "other.bin"
	gone, kept := p.create(t, p.sender, other), p.create(t, p.sender, file(megabyte))
	p.a1.report(&groupv1.DeliveryReport{Delivery: gone, Bytes: megabyte, HeldBytes: megabyte / 2})
	p.passOn(kept, megabyte)
	for _, id := range []string{gone, kept} {
		p.seal(t, p.sender, id, megabyte)
		p.mustComplete(t, p.m1, id, megabyte)
		p.mustComplete(t, p.m2, id, megabyte)
		p.becomes(t, id, "complete", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
	}
	late := p.join(t, "late", "node-2", receiveToo)
	late.has(t, kept, "to receive what is kept", fedBy("a2"))
	p.mustComplete(t, late, kept, megabyte)
	if p.get(t, gone).GetTreeVersion() != 1 {
		t.Error("a place was made for it where nothing is kept")
	}
}

// Agents are told to keep a delivery that has ended for as long as its sender has asked. After that they are not told of it any more, and a
// member that comes later is not to receive it.
func TestDeliveryIsKeptAsLongAsAskedFor(t *testing.T) {
	t.Parallel()
	_, party := startParty(t)
	p := newPair(t, party)
	keep := func(name string, long time.Duration) string {
		spec := file(megabyte)
		spec.Name, spec.Keep = name, durationpb.New(long)
		id := p.create(t, p.sender, spec)
		p.passOn(id, megabyte)
		p.seal(t, p.sender, id, megabyte)
		p.mustComplete(t, p.m1, id, megabyte)
		p.mustComplete(t, p.m2, id, megabyte)
		end := p.becomes(t, id, "complete", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE)).GetEndTime().AsTime()
		p.a2.has(t, id, "told how long to keep it", func(a *groupv1.Assignment) bool {
			return a.GetEnded() && a.GetKeepUntil().AsTime().Equal(end.Add(long))
		})
		return id
	}
	short, long := keep("short", time.Second), keep("long", 2*time.Hour)
	p.a2.has(t, short, "let go of it", func(a *groupv1.Assignment) bool { return a == nil })
	late := p.join(t, "late", "node-2", receiveToo)
	late.has(t, long, "to receive what is kept", fedBy("a2"))
	if p.get(t, short).GetTreeVersion() != 1 {
		t.Error("a place was made for it where nothing is kept")
	}
}

func TestDeliveryExpiredMemberReturns(t *testing.T) {
	t.Parallel()
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.m2.stop()
	p.becomes(t, id, "m2 unknown", 20*time.Second, func(d *groupv1.Delivery) bool {
		r := receipt(d, "m2")
		return r.GetState() == groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN && r.GetChangeTime() != nil
	})
	p.a2.has(t, id, "without m2", children())
	p.rejoin(t, p.m2, "node-2", receiveToo)
	p.m2.has(t, id, "fed again", fedBy("a2"))
	p.passOn(id, megabyte)
	p.seal(t, p.sender, id, megabyte)
	p.mustComplete(t, p.m1, id, megabyte)
	p.mustComplete(t, p.m2, id, megabyte)
	p.becomes(t, id, "complete", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
}

// A leader is killed in the middle: what was written stays, and trees grow on.
func TestDeliverySurvivesItsLeader(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 3)
	leader := cluster.Leader(t)
	p := newPair(t, newParty(t, cluster.Config(), nil))
	id := p.create(t, p.sender, file(megabyte))
	p.passOn(id, megabyte)
	p.seal(t, p.sender, id, megabyte)
	p.mustComplete(t, p.m1, id, megabyte)
	before := p.m2.has(t, id, "fed by its node's agent", fedBy("a2"))
	tree := p.get(t, id).GetTreeVersion()
	leader.Kill()
	d := p.becomes(t, id, "known to the new leader", 30*time.Second, func(d *groupv1.Delivery) bool {
		return receipt(d, "m1").GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE
	})
	if d.GetState() != groupv1.DeliveryState_DELIVERY_STATE_RUNNING || d.GetTreeVersion() != tree {
		t.Errorf("under the new leader it is %v, want version %d as before", d, tree)
	}
	if a := p.m2.has(t, id, "fed as before", fedBy("a2")); a.GetTreeVersion() < before.GetTreeVersion() {
		t.Errorf("version %d after %d", a.GetTreeVersion(), before.GetTreeVersion())
	}
	p.becomes(t, id, "reported on again", 20*time.Second, func(d *groupv1.Delivery) bool { return d.GetSentBytes() == megabyte })
	p.a2.stop()
	if a := p.m2.has(t, id, "fed by the other agent", fedBy("a1")); a.GetTreeVersion() <= tree {
		t.Errorf("version %d after %d", a.GetTreeVersion(), tree)
	}
	p.mustComplete(t, p.m2, id, megabyte)
	p.becomes(t, id, "complete", 10*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
}
