package delivery

import (
	"slices"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
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
	u.desk.regained = time.Now().Add(-time.Hour) // others were there when they closed
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
				u.desk.regained, want = time.Now().Add(-returnPatience), "agent/b"
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
