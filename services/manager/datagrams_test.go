package manager_test

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// inDatagrams is a stream that goes in datagrams.
func inDatagrams() *groupv1.DeliverySpec {
	return &groupv1.DeliverySpec{
		Name: "sensor", Kind: groupv1.DeliveryKind_DELIVERY_KIND_STREAM, LengthUnknown: true,
		Datagrams: &groupv1.DatagramSpec{ParityData: 10, ParityShards: 2},
	}
}

// record reports what came of a stream at a member.
func (p *party) record(t *testing.T, n *node, delivery string, counts *groupv1.DatagramCounts) {
	t.Helper()
	_, err := p.deliveries.RecordReceipt(t.Context(), &groupv1.RecordReceiptRequest{
		Delivery: delivery, Member: n.name, Incarnation: n.member.GetIncarnation(),
		State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE, Bytes: counts.GetReceived(), Root: root(byte(counts.GetReceived())), Datagrams: counts,
	})
	if err != nil {
		t.Fatalf("receipt of %s: %v", n.name, err)
	}
}

// Members of a stream in datagrams have no more than what came, and each says what that is. The delivery is over when all have said so,
// although nobody has all and the sender has gone.
func TestDeliveryInDatagrams(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, inDatagrams())
	late := p.join(t, "late", "node-2", receiveToo)
	if a := p.m1.has(t, id, "to receive", fedBy("a1")); a.GetLate() || a.GetSpec().GetDatagrams().GetParityData() != 10 {
		t.Errorf("m1 is told %v", a)
	}
	if a := late.has(t, id, "to receive", fedBy("a2")); !a.GetLate() {
		t.Errorf("late is told %v", a)
	}
	use := &groupv1.DatagramUse{Sent: 90, Held: 10, Lost: 5}
	p.sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 1000})
	p.a1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 900, Children: []*groupv1.ChildReport{{Name: "m1", Connected: true, SentBytes: 800, Datagrams: use}}})
	p.m1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: 800, Datagrams: &groupv1.DatagramCounts{Received: 80, Lost: 3}})
	p.becomes(t, id, "shown as it goes on", 5*time.Second, func(d *groupv1.Delivery) bool {
		return receipt(d, "m1").GetDatagrams().GetReceived() == 80
	})
	_, err := p.deliveries.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{
		Delivery: id, Sender: p.sender.name, Incarnation: p.sender.member.GetIncarnation(), Length: 1000, Root: root(1), Datagrams: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.leave(t, p.sender)
	p.m2.has(t, id, "told how many there were", func(a *groupv1.Assignment) bool { return a.GetSealed() && a.GetDatagrams() == 100 })
	p.record(t, p.m1, id, &groupv1.DatagramCounts{Received: 95, Recovered: 4, Late: 1, Lost: 4})
	p.record(t, p.m2, id, &groupv1.DatagramCounts{Lost: 100})
	d := p.becomes(t, id, "complete", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
	if got := receipt(d, "m1").GetDatagrams(); got.GetReceived() != 95 || got.GetRecovered() != 4 || got.GetLate() != 1 || got.GetLost() != 4 {
		t.Errorf("m1 has %v", got)
	}
	if d.GetDatagrams() != 100 || receipt(d, "m2").GetDatagrams().GetLost() != 100 {
		t.Errorf("it ended as %v", d)
	}
	carried := false
	for _, l := range d.GetMeasurements().GetLinks() {
		carried = carried || l.GetTo() == "m1" && l.GetDatagrams().GetHeld() == 10
	}
	if !carried {
		t.Errorf("links carried %v", d.GetMeasurements().GetLinks())
	}
}

// A node that its feeder's datagrams do not reach is fed by another: a member, if others get theirs; and all below an agent, if the agent gets
// none. Nobody complains, since their links live.
func TestWhomDatagramsDoNotReachIsFedByAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		served []string // of a2, m1, m2 and m3, beside the sender and a1
		cause  string
		fedBy  map[string]string // in the end
	}{
		"a member":               {[]string{"a2", "m1", "m2"}, "member_unfed", map[string]string{"m1": "a1", "m2": "a2", "m3": "a1"}},
		"an agent and all below": {[]string{"m1"}, "agent_idle", map[string]string{"m1": "a1", "m2": "a1", "m3": "a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, party := startParty(t)
			p := newPair(t, party)
			m3 := p.join(t, "m3", "node-2", receiveToo)
			id := p.create(t, p.sender, inDatagrams())
			first := m3.has(t, id, "fed by its node's agent", fedBy("a2"))
			nodes := map[string]*node{"a2": p.a2, "m1": p.m1, "m2": p.m2, "m3": m3}
			came := make(map[string]uint64)
			eventually(t, 25*time.Second, "another feeds who gets nothing", func() bool {
				for _, served := range append([]string{"s", "a1"}, test.served...) {
					came[served] += 1000
				}
				p.sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: came["s"]})
				p.a1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: came["a1"]})
				for name, node := range nodes {
					node.report(&groupv1.DeliveryReport{Delivery: id, Bytes: came[name]})
				}
				time.Sleep(250 * time.Millisecond)
				return p.get(t, id).GetTreeVersion() > first.GetTreeVersion()
			})
			d := p.get(t, id)
			for member, by := range test.fedBy {
				if got := receipt(d, member).GetParent(); got != by {
					t.Errorf("%s is fed by %s, want %s", member, got, by)
				}
			}
			if last := d.GetTreeChanges()[len(d.GetTreeChanges())-1]; last.GetCause() != test.cause {
				t.Errorf("the last change is %v", last)
			}
		})
	}
}
