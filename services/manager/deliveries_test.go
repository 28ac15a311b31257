package manager_test

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

const megabyte = 1 << 20

// The main way: created, assigned, sealed, received, complete.
func TestDeliveryCompletes(t *testing.T) {
	_, p := startParty(t)
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
	if m := measured.GetMeasurements(); m.GetSendBytesPerSecond() == 0 || m.GetReceptionBytesPerSecond() == 0 ||
		m.GetEffectiveThroughput() <= 0 || len(m.GetCaches()) != 1 || m.GetCaches()[0].GetRatio() != 0.25 {
		t.Errorf("measured as %v", m)
	}
}
