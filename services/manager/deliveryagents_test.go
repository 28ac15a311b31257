package manager_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// An agent whose connection is gone is replaced within a second, by a newer tree.
func TestDeliveryAgentLost(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	before := p.m2.has(t, id, "fed by its node's agent", fedBy("a2"))
	start := time.Now()
	p.a2.link.Close()
	after := p.m2.has(t, id, "fed by the other agent", fedBy("a1"))
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v, want a second at most", took)
	}
	if after.GetTreeVersion() <= before.GetTreeVersion() || len(after.GetParent().GetAddresses()) != 1 {
		t.Errorf("reassigned as %v after %v", after, before)
	}
	p.a1.has(t, id, "a relay of both", children("m1", "m2"))
	// The ingress goes, too, in order: nobody is left, and nothing fails.
	p.a1.stop()
	alone := p.m2.has(t, id, "fed by nobody", func(a *groupv1.Assignment) bool { return a != nil && a.GetParent() == nil })
	p.sender.has(t, id, "without an agent", children())
	if d := p.get(t, id); d.GetState() != groupv1.DeliveryState_DELIVERY_STATE_RUNNING {
		t.Errorf("without an agent it is %v", d)
	}
	// Another comes.
	p.agent(t, "a3", "node-3", "zone-c")
	again := p.m2.has(t, id, "fed by the new agent", fedBy("a3"))
	if again.GetTreeVersion() <= alone.GetTreeVersion() {
		t.Errorf("version %d after %d", again.GetTreeVersion(), alone.GetTreeVersion())
	}
	p.sender.has(t, id, "sending to it", children("a3"))
}

// The only agent comes back: its children are fed by it again.
func TestDeliveryOnlyAgentReturns(t *testing.T) {
	_, p := startParty(t)
	agent := p.agent(t, "a1", "node-1", "zone-a")
	sender, member := p.join(t, "s", "node-1", send), p.join(t, "m1", "node-1", receiveToo)
	id := p.create(t, sender, file(megabyte))
	first := member.has(t, id, "fed", fedBy("a1"))
	agent.link.Close()
	member.has(t, id, "fed by nobody", func(a *groupv1.Assignment) bool { return a != nil && a.GetParent() == nil })
	p.register(t, agent, "node-1", "zone-a")
	agent.has(t, id, "a relay again", children("m1"))
	if again := member.has(t, id, "fed again", fedBy("a1")); again.GetTreeVersion() <= first.GetTreeVersion() {
		t.Errorf("version %d after %d", again.GetTreeVersion(), first.GetTreeVersion())
	}
}

// A neighbour's word counts against an agent that the manager hears, but not again
// and again.
func TestDeliveryAgentUnreachable(t *testing.T) {
	t.Parallel()
	_, party := startParty(t)
	p := newPair(t, party)
	p.agent(t, "a3", "node-3", "zone-b")
	p.join(t, "m3", "node-3", receiveToo)
	id := p.create(t, p.sender, file(megabyte))
	p.m2.has(t, id, "fed by its node's agent", fedBy("a2"))
	start := time.Now()
	p.m2.report(&groupv1.DeliveryReport{Delivery: id, Lost: "a2"})
	next := p.m2.has(t, id, "fed by another", func(a *groupv1.Assignment) bool {
		return a.GetParent() != nil && a.GetParent().GetName() != "a2"
	}).GetParent().GetName()
	if took := time.Since(start); took < time.Second || took > 5*time.Second {
		t.Errorf("it took %v, want 1.5s", took)
	}
	p.m2.report(&groupv1.DeliveryReport{Delivery: id, Lost: next})
	wait(t, 3*time.Second)
	p.m2.has(t, id, "still fed by "+next, fedBy(next))
}

// A member that got something else than was sent is fed by another agent, but twice at most: it may say what it likes.
func TestDeliveryDamagedMember(t *testing.T) {
	t.Parallel()
	_, party := startParty(t)
	p := newPair(t, party)
	p.agent(t, "a3", "node-3", "zone-b")
	id := p.create(t, p.sender, file(megabyte))
	parent := p.m2.has(t, id, "fed by its node's agent", fedBy("a2")).GetParent().GetName()
	p.m2.report(&groupv1.DeliveryReport{Delivery: id, Damaged: "another"})
	wait(t, time.Second)
	p.m2.has(t, id, "still fed by it: another is not who feeds it", fedBy("a2"))
	for range 2 {
		p.m2.report(&groupv1.DeliveryReport{Delivery: id, Damaged: parent})
		parent = p.m2.has(t, id, "fed by another", func(a *groupv1.Assignment) bool {
			return a.GetParent() != nil && a.GetParent().GetName() != parent
		}).GetParent().GetName()
	}
	p.m2.report(&groupv1.DeliveryReport{Delivery: id, Damaged: parent})
	wait(t, time.Second)
	p.m2.has(t, id, "still fed by "+parent, fedBy(parent))
}

// A member that gets nothing from an agent that feeds others, or cannot reach it, is fed by another. The agent stays with the others.
func TestDeliveryUnfedMember(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]struct {
		report *groupv1.DeliveryReport
		within time.Duration
	}{
		"it gets nothing":  {&groupv1.DeliveryReport{}, 25 * time.Second},
		"it cannot get it": {&groupv1.DeliveryReport{Lost: "a2"}, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, party := startParty(t)
			p := newPair(t, party)
			m3 := p.join(t, "m3", "node-2", receiveToo)
			id := p.create(t, p.sender, file(megabyte))
			first := m3.has(t, id, "fed by its node's agent", fedBy("a2"))
			goesOn := uint64(0)
			eventually(t, says.within, "m3 is fed by another", func() bool {
				goesOn++
				p.sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte})
				for _, agent := range []*node{p.a1, p.a2} {
					agent.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte, Children: []*groupv1.ChildReport{
						{Name: "a2", Connected: true}, {Name: "m1", Connected: true}, {Name: "m2", Connected: true}, {Name: "m3", Connected: true},
					}})
				}
				p.m1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: goesOn})
				p.m2.report(&groupv1.DeliveryReport{Delivery: id, Bytes: goesOn})
				says.report.Delivery = id
				m3.report(proto.CloneOf(says.report))
				time.Sleep(250 * time.Millisecond)
				d := p.get(t, id)
				return receipt(d, "m3").GetParent() != "a2" && d.GetTreeVersion() > first.GetTreeVersion()
			})
			d := p.get(t, id)
			if receipt(d, "m2").GetParent() != "a2" || receipt(d, "m3").GetParent() != "a1" {
				t.Errorf("m2 is fed by %s, and m3 by %s", receipt(d, "m2").GetParent(), receipt(d, "m3").GetParent())
			}
			if last := d.GetTreeChanges()[len(d.GetTreeChanges())-1]; last.GetCause() != "member_unfed" {
				t.Errorf("the last change is %v", last)
			}
		})
	}
}
