package delivery

import (
	"maps"
	"slices"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// part has the control streams of agents close at once, some time ago.
func (u *unserved) part(ago time.Duration, agents ...string) {
	for _, name := range agents {
		u.desk.AttachAgent(name)
	}
	for _, name := range agents {
		u.hangUp(name)
	}
	for _, name := range agents {
		u.desk.agents[name].closed = time.Now().Add(-ago)
	}
	u.desk.broken.began, u.desk.broken.until = u.desk.broken.began.Add(-ago), u.desk.broken.until.Add(-ago)
}

// hangUp has all control streams of an agent close.
func (u *unserved) hangUp(agent string) {
	for _, a := range slices.Collect(maps.Keys(u.desk.attached[seatOf("", placement.AgentID(agent))])) {
		a.Close()
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

// They are waited for, but not for long: 5 s, and 5 s more once the first is back, whoever comes and goes meanwhile.
func TestAgentsThatBrokeTogetherAreNotWaitedForLong(t *testing.T) {
	u := serve(t, fileSpec())
	u.part(2*time.Second, "a", "b")
	first := time.Until(u.desk.broken.until)
	came := u.desk.AttachAgent("b")
	then := u.desk.broken.until
	if first > returnPatience || time.Until(then) > returnPatience {
		t.Errorf("they are waited for for %v, and then until %v", first, then)
	}
	for range 3 {
		came.Close()
		u.desk.agents["b"].closed = time.Now().Add(-2 * time.Second)
		u.wantAsItWas("when the first has gone again,")
		came = u.desk.AttachAgent("b")
	}
	if got := u.desk.broken.until; !got.Equal(then) {
		t.Errorf("who comes and goes has the others be waited for until %v, and then until %v", then, got)
	}
	u.desk.broken.until = time.Now()
	u.mustArrange()
	if by, _ := u.tree.Parent("member/m1"); by != "agent/b" {
		t.Errorf("m1 is fed by %q: %v", by, u.shown().Tree.GetChanges())
	}
}

// What a member says of an agent that cannot be heard either does not have others do its work that are no more there than it is.
func TestMemberComplainsWhileAllAreGone(t *testing.T) {
	u := serve(t, fileSpec())
	u.become("c", agentv1.AgentState_AGENT_STATE_ONLINE)
	u.part(3*time.Second, "a", "b", "c")
	for _, agent := range u.desk.agents {
		agent.heard = time.Now().Add(-9 * time.Second)
	}
	u.say(map[string]*groupv1.DeliveryReport{"m1": {Lost: "a"}})
	u.progress.nodes[named("m1")].lost, u.progress.nodes[named("m1")].lostSince = "a", time.Now().Add(-9*time.Second)
	u.wantAsItWas("while all are gone,")
	u.desk.AttachAgent("c")
	u.wantAsItWas("when one is back,")
}

// Members' relays come on ways of their own: that one is there while no session agent is does not make it a fault of these, and that one is back
// before them begins nothing. A relay whose own stream breaks is lost.
func TestRelaysAreOnTheirOwnWays(t *testing.T) {
	u := serve(t, fileSpec())
	u.desk.AttachAgent("laptop.other")
	u.part(2*time.Second, "a", "b")
	u.desk.AttachAgent("pc.other").Close()
	u.desk.agents["pc.other"].closed = time.Now().Add(-2 * time.Second)
	u.wantAsItWas("while no session agent is there,")
	if u.desk.AttachAgent("desk.other"); u.desk.broken.returned {
		t.Error("a relay counts as the first that is back")
	}
	if waits := u.desk.seen("pc.other").waits; !waits.IsZero() {
		t.Errorf("a relay is waited for until %v", waits)
	}
	u.desk.AttachAgent("b")
	u.wantAsItWas("when the first session agent is back,")
}

// An agent that is the only one is lost as before when its stream breaks, however many there were in the past: nothing says that it was not it.
func TestOnlyStreamBreaks(t *testing.T) {
	u := serve(t, fileSpec())
	u.hangUp("b")
	u.desk.agents["b"].closed = time.Now().Add(-time.Minute)
	u.hangUp("a")
	if waits := u.desk.seen("a").waits; !waits.IsZero() {
		t.Errorf("it is waited for until %v", waits)
	}
}

// Agents that were all gone and come back one after the other are of use as soon as they are there.
func TestAllAgentsComeBack(t *testing.T) {
	u := serve(t, fileSpec())
	for _, name := range []string{"a", "b"} {
		u.become(name, agentv1.AgentState_AGENT_STATE_OFFLINE)
	}
	u.part(time.Minute, "a", "b")
	u.mustArrange()
	if got := u.shown().Tree.GetAbsent(); len(got) != 2 {
		t.Fatalf("absent are %v", got)
	}
	for _, name := range []string{"b", "a"} {
		u.become(name, agentv1.AgentState_AGENT_STATE_ONLINE)
		u.desk.AttachAgent(name)
		u.mustArrange()
	}
	if absent := u.shown().Tree.GetAbsent(); len(absent) > 0 || len(u.bannedUntil) > 0 {
		t.Errorf("absent are %v, and banned are %v: %v", absent, u.bannedUntil, u.shown().Tree.GetChanges())
	}
}
