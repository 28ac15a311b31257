package delivery

import (
	"slices"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// part has the control streams of agents close, some time ago.
func (u *unserved) part(ago time.Duration, agents ...string) {
	for _, name := range agents {
		u.desk.AttachAgent(name).Close()
	}
	for _, name := range agents {
		u.desk.agents[name].closed = time.Now().Add(-ago)
	}
}

// become has an agent be on line, or not.
func (u *unserved) become(agent string, state agentv1.AgentState) {
	u.t.Helper()
	u.desk.put(u.t, view.AgentKey(agent), &agentv1.Agent{Name: agent, State: state, Addresses: []string{agent + ":7410"}})
}

// wantAsItWas wants all in the tree to be fed as they were at first.
func (u *unserved) wantAsItWas(when string) {
	u.t.Helper()
	u.mustArrange()
	if got := u.shown().Tree; got.GetVersion() != 1 {
		u.t.Errorf("%s the tree has changed: %v", when, got.GetChanges())
	}
	if got, want := u.feeds("a"), []string{"member/m1", "member/m2"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		u.t.Errorf("%s a feeds %v, want %v", when, got, want)
	}
	if len(u.bannedUntil) > 0 {
		u.t.Errorf("%s there are banned: %v", when, u.bannedUntil)
	}
}

// The control streams of all agents break at once, as where something on the way to the leader is started anew. The agents live, and go on: who
// feeds whom stays, also when the first of them is back and the others are not yet.
func TestAllStreamsBreakAtOnce(t *testing.T) {
	for _, first := range []string{"a", "b", "c, which the tree does not use"} {
		t.Run(first, func(t *testing.T) {
			u := serve(t, fileSpec())
			u.become("c", agentv1.AgentState_AGENT_STATE_ONLINE)
			u.part(2*time.Second, "a", "b", "c")
			u.wantAsItWas("while all are gone,")
			u.desk.AttachAgent(first[:1])
			u.wantAsItWas("when the first is back,")
			for _, name := range []string{"a", "b"} {
				u.desk.AttachAgent(name)
			}
			u.wantAsItWas("when all are back,")
		})
	}
}

// A stream that breaks while another agent is there is that agent's fault: the other takes its place.
func TestOneStreamBreaks(t *testing.T) {
	u := serve(t, fileSpec())
	u.part(2*time.Second, "a")
	u.mustArrange()
	if by, _ := u.tree.Parent("member/m1"); by != "agent/b" {
		t.Errorf("m1 is fed by %q", by)
	}
}

// All agents are gone for so long that none counts as there. When the first is back the others are waited for, but not for long; and who comes
// later is used again as soon as it is there.
func TestAllAgentsComeBack(t *testing.T) {
	for name, late := range map[string]bool{"soon": false, "not soon": true} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			for _, name := range []string{"a", "b"} {
				u.become(name, agentv1.AgentState_AGENT_STATE_OFFLINE)
			}
			u.part(time.Minute, "a", "b")
			u.mustArrange()
			if got := u.shown().Tree.GetAbsent(); len(got) != 2 {
				t.Fatalf("absent are %v", got)
			}
			come := func(name string) {
				u.become(name, agentv1.AgentState_AGENT_STATE_ONLINE)
				u.desk.AttachAgent(name)
				u.mustArrange()
			}
			come("b")
			if got := u.shown().Tree.GetAbsent(); !slices.Equal(got, []string{"agent/a"}) {
				t.Fatalf("absent are %v, want a: %v", got, u.shown().Tree.GetChanges())
			}
			want := "agent/a"
			if late {
				u.desk.agents["a"].awaited, want = time.Now(), "agent/b"
				u.mustArrange()
			}
			come("a")
			if by, _ := u.tree.Parent("member/m1"); by != want {
				t.Errorf("m1 is fed by %q, want %q: %v", by, want, u.shown().Tree.GetChanges())
			}
			if len(u.bannedUntil) > 0 {
				t.Errorf("banned are %v", u.bannedUntil)
			}
		})
	}
}

// All agents are gone for so long that none counts as on line: that is found of one after the other, as each was heard last at another time. Who
// feeds whom stays all the same.
func TestAgentsGoOffLineOneByOne(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		t.Run(order[0]+" first", func(t *testing.T) {
			u := serve(t, fileSpec())
			u.become("c", agentv1.AgentState_AGENT_STATE_ONLINE)
			u.part(11*time.Second, "a", "b", "c")
			for i, name := range order {
				u.become(name, agentv1.AgentState_AGENT_STATE_OFFLINE)
				u.mustArrange()
				if got := u.shown().Tree.GetAbsent(); len(got) != i+1 {
					t.Errorf("when %s goes off line, absent are %v: %v", name, got, u.shown().Tree.GetChanges())
				}
			}
			u.desk.AttachAgent("c")
			for _, name := range []string{"b", "a"} {
				u.mustArrange()
				u.become(name, agentv1.AgentState_AGENT_STATE_ONLINE)
				u.desk.AttachAgent(name)
			}
			u.mustArrange()
			if got, absent := u.feeds("a"), u.shown().Tree.GetAbsent(); len(got) != 2 || len(absent) > 0 {
				t.Errorf("in the end a feeds %v, and absent are %v: %v", got, absent, u.shown().Tree.GetChanges())
			}
			if len(u.bannedUntil) > 0 {
				t.Errorf("banned are %v", u.bannedUntil)
			}
		})
	}
}

// Agents go off line while one of them is back already: they are waited for as before.
func TestAgentGoesOffLineWhileItIsWaitedFor(t *testing.T) {
	u := serve(t, fileSpec())
	u.part(10*time.Second, "a", "b")
	u.desk.AttachAgent("b")
	u.wantAsItWas("when the first is back,")
	u.become("a", agentv1.AgentState_AGENT_STATE_OFFLINE)
	u.mustArrange()
	u.become("a", agentv1.AgentState_AGENT_STATE_ONLINE)
	u.desk.AttachAgent("a")
	u.mustArrange()
	if by, _ := u.tree.Parent("member/m1"); by != "agent/a" || len(u.bannedUntil) > 0 {
		t.Errorf("m1 is fed by %q, banned are %v: %v", by, u.bannedUntil, u.shown().Tree.GetChanges())
	}
}

// What a member says of an agent that cannot be heard either does not have others do its work who are no more there than it is, or it be out when
// it is back a moment later.
func TestMemberComplainsWhileAllAreGone(t *testing.T) {
	u := serve(t, fileSpec())
	u.become("c", agentv1.AgentState_AGENT_STATE_ONLINE)
	u.part(9*time.Second, "a", "b", "c")
	for _, agent := range u.desk.agents {
		agent.heard = time.Now().Add(-9 * time.Second)
	}
	u.say(map[string]*groupv1.DeliveryReport{"m1": {Lost: "a"}})
	u.progress.nodes[named("m1")].lost, u.progress.nodes[named("m1")].lostSince = "a", time.Now().Add(-9*time.Second)
	u.wantAsItWas("while all are gone,")
	u.desk.AttachAgent("c")
	u.wantAsItWas("when one is back,")
}

// An agent that was not there when the streams of all had broken takes no part before it is back, as it may be gone for good. Once the others are
// not waited for any more, the one that is there does their work, alone.
func TestDeadAgentsAreNotTriedOneByOne(t *testing.T) {
	u := serve(t, fileSpec())
	for _, name := range []string{"c", "d"} {
		u.become(name, agentv1.AgentState_AGENT_STATE_ONLINE)
	}
	u.part(11*time.Second, "a", "b", "c", "d")
	for _, name := range []string{"a", "b"} {
		u.become(name, agentv1.AgentState_AGENT_STATE_OFFLINE)
		u.mustArrange()
	}
	u.desk.AttachAgent("d")
	u.mustArrange()
	if got := u.shown().Tree.GetAbsent(); len(got) != 2 {
		t.Errorf("when d is back, absent are %v: %v", got, u.shown().Tree.GetChanges())
	}
	for _, agent := range u.desk.agents {
		if agent.attachment == nil {
			agent.awaited = time.Now()
		}
	}
	u.mustArrange()
	if got := u.feeds("d"); len(got) != 2 || len(u.bannedUntil) > 0 {
		t.Errorf("d feeds %v, and banned are %v: %v", got, u.bannedUntil, u.shown().Tree.GetChanges())
	}
}

// Members' relays come on ways of their own: that one is there while no session agent is does not make it a fault of these, and that one is back
// before them begins nothing.
func TestRelaysAreOnTheirOwnWays(t *testing.T) {
	u := serve(t, fileSpec())
	u.desk.AttachAgent("laptop.other").Close()
	u.desk.AttachAgent("laptop.other")
	u.part(2*time.Second, "a", "b")
	u.wantAsItWas("while no session agent is there,")
	for _, agent := range u.desk.agents {
		if !agent.awaited.IsZero() {
			t.Errorf("session agents are waited for until %v", agent.awaited)
		}
	}
	u.desk.AttachAgent("b")
	u.wantAsItWas("when the first session agent is back,")
	if got := time.Until(u.desk.agents["a"].awaited); got < returnPatience/2 {
		t.Errorf("the other is waited for %v more", got)
	}
}

// A relay whose stream closes while session agents are there is lost. Where relays are all that there is, they are waited for as session agents are.
func TestRelaysStreamsBreak(t *testing.T) {
	for name, test := range map[string]struct {
		others []string // that are there
		lost   bool
	}{"beside session agents": {[]string{"a"}, true}, "beside another relay": {[]string{"pc.g"}, true}, "alone": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			for _, other := range test.others {
				d.AttachAgent(other)
			}
			d.AttachAgent("laptop.g").Close()
			until := d.awaited("laptop.g", time.Now().Add(time.Hour))
			if lost := time.Until(until) <= 0; lost != test.lost {
				t.Errorf("it is waited for until %v", until)
			}
		})
	}
}

// The only agent is gone, and another is there, which the tree does not use. It does not wait for one that nobody knows any more, or if it came
// after all had broken, as its heir.
func TestHeirServesAtOnce(t *testing.T) {
	for name, test := range map[string]struct{ forgotten, known, waits bool }{
		"the agent is forgotten":              {forgotten: true, known: true},
		"the heir has another name":           {},
		"the other was there before, as well": {known: true, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			u.stand(
				&managerv1.TreeNode{Id: "member/s"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
				&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "member/m2", Parent: "agent/a"},
			)
			u.desk.found = time.Now().Add(-time.Hour)
			u.become("b", agentv1.AgentState_AGENT_STATE_OFFLINE)
			u.become("c", agentv1.AgentState_AGENT_STATE_ONLINE)
			u.part(time.Minute, "b", "a")
			if test.known {
				u.part(time.Minute, "c", "a")
			}
			u.become("a", agentv1.AgentState_AGENT_STATE_OFFLINE)
			u.mustArrange()
			if got := u.shown().Tree.GetAbsent(); len(got) != 1 {
				t.Fatalf("absent are %v", got)
			}
			if test.forgotten {
				u.desk.forgetAgent(t, "a")
			}
			u.desk.AttachAgent("c")
			u.mustArrange()
			if waits := len(u.feeds("c")) == 0; waits != test.waits {
				t.Errorf("c waits: %t: %v", waits, u.shown().Tree.GetChanges())
			}
		})
	}
}

// forgetAgent has an agent no longer be known.
func (d *Desk) forgetAgent(t *testing.T, name string) {
	t.Helper()
	if _, err := d.store.Commit(t.Context(), d.ledger.Term(), nil, []store.Op{store.Delete(view.AgentKey(name))}); err != nil {
		t.Fatal(err)
	}
	if err := d.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An agent that comes and goes does not have the others be waited for anew each time: once their time is over it does their work.
func TestAgentThatComesAndGoesServes(t *testing.T) {
	u := serve(t, fileSpec())
	u.part(time.Minute, "a", "b")
	came := u.desk.AttachAgent("b")
	until := u.desk.agents["a"].awaited
	for range 3 {
		came.Close()
		u.wantAsItWas("while it is gone,")
		came = u.desk.AttachAgent("b")
		if got := u.desk.agents["a"].awaited; until.IsZero() || !got.Equal(until) {
			t.Errorf("the other is waited for until %v, and then until %v", until, got)
		}
	}
	u.desk.agents["a"].awaited = time.Now()
	came.Close()
	u.mustArrange()
	u.desk.AttachAgent("b")
	u.mustArrange()
	if by, _ := u.tree.Parent("member/m1"); by != "agent/b" {
		t.Errorf("m1 is fed by %q: %v", by, u.shown().Tree.GetChanges())
	}
}
