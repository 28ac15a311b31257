package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

// A latency bound is what a tree begins within. The only agent that keeps it is lost: another goes on beyond it, and that is said.
func TestDeliveryGoesOnBeyondItsLatencyBound(t *testing.T) {
	for name, lose := range map[string]func(u *unserved){
		"its agent is offline": func(u *unserved) { u.desk.agents["a"].goodbye = true },
		"its agent is blamed": func(u *unserved) {
			u.say(map[string]*groupv1.DeliveryReport{"m1": {Lost: "a"}})
			u.progress.nodes[named("m1")].lost, u.progress.nodes[named("m1")].lostSince = "a", time.Now().Add(-time.Minute)
		},
		"others come once it has gone": func(u *unserved) {
			b, _ := u.desk.view.Agent("b")
			away := &agentv1.Agent{Name: "b", State: agentv1.AgentState_AGENT_STATE_OFFLINE}
			u.desk.put(t, view.AgentKey("b"), away)
			u.desk.agents["a"].goodbye = true
			u.mustArrange()
			if len(u.shown().Tree.GetAbsent()) != 1 {
				t.Fatal("the only agent is not waited for")
			}
			u.desk.put(t, view.AgentKey("b"), b.Agent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			u.desk.put(t, view.GroupKey("g"), &groupv1.Group{Name: "g", Policy: &groupv1.Policy{LatencyBound: durationpb.New(20 * time.Millisecond)}})
			u.desk.survey = survey.Lead(u.desk.view, nil) // one that has not looked lately
			for _, member := range []string{"s", "m1", "m2"} {
				u.desk.measure(member, 5*time.Millisecond, 60*time.Millisecond)
			}
			for _, agent := range []string{"a", "b"} { // the survey looks again at what is measured
				known, _ := u.desk.view.Agent(agent)
				u.desk.put(t, view.AgentKey(agent), known.Agent)
			}
			if err := u.desk.view.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			u.stand(
				&managerv1.TreeNode{Id: "member/s"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
				&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "member/m2", Parent: "agent/a"},
			)
			lose(u)
			u.mustArrange()
			if by, _ := u.tree.Parent("member/m2"); by != "agent/b" {
				t.Errorf("m2 is fed by %q: %v", by, u.shown().Tree.GetChanges())
			}
			if !strings.Contains(fmt.Sprint(u.shown().Tree.GetChanges()), "beyond the latency bound") {
				t.Errorf("nobody says that it is late: %v", u.shown().Tree.GetChanges())
			}
		})
	}
}

// A delivery's own latency bound and its group's hold: the smaller one refuses a delivery for which there is no such tree, and is what later trees are
// measured by. The group's counts as it is then.
func TestSmallerLatencyBoundHolds(t *testing.T) {
	for _, tt := range []struct{ own, ofGroup, holds time.Duration }{
		{0, 0, 0},
		{0, time.Second, time.Second},
		{time.Second, 0, time.Second},
		{time.Millisecond, time.Second, time.Millisecond},
		{time.Second, time.Millisecond, time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v in a group of %v", tt.own, tt.ofGroup), func(t *testing.T) {
			d := creating(t)
			d.put(t, view.AgentKey("b"), &agentv1.Agent{Name: "b", State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{"b:7410"}})
			d.bind(t, tt.ofGroup)
			for _, member := range []string{"s", "m"} {
				d.measure(member, 20*time.Millisecond, time.Second)
			}
			spec := fileSpec()
			spec.LatencyBound = durationpb.New(tt.own)
			asked := &groupv1.CreateDeliveryRequest{Group: "g", Sender: "s", Spec: spec}
			_, err := d.Create(t.Context(), creator, asked)
			if isShort := tt.holds == time.Millisecond; errors.Is(err, ErrNoTree) != isShort || !isShort && err != nil {
				t.Errorf("it begins with %v", err)
			}
			u := serve(t, spec)
			u.desk.bind(t, tt.ofGroup)
			if got := u.network(u.shown()).LatencyBound; got != tt.holds {
				t.Errorf("later trees are measured by %v, want %v", got, tt.holds)
			}
			u.desk.bind(t, time.Microsecond)
			if got := u.network(u.shown()).LatencyBound; got != time.Microsecond {
				t.Errorf("once the group's is a microsecond, they are measured by %v", got)
			}
		})
	}
}

// bind gives group g a latency bound.
func (d *Desk) bind(t *testing.T, bound time.Duration) {
	t.Helper()
	d.put(t, view.GroupKey("g"), &groupv1.Group{Name: "g", Policy: &groupv1.Policy{LatencyBound: durationpb.New(bound)}})
	if err := d.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// measure notes how far a member is from agent a, and from agent b.
func (d *Desk) measure(member string, a, b time.Duration) {
	node := survey.Member("g", member)
	d.survey.Begin(node, 1)
	d.survey.Ask(node)
	d.survey.Take(node, []*groupv1.RoundTrip{{Agent: "a", Time: durationpb.New(a)}, {Agent: "b", Time: durationpb.New(b)}})
}

func (u *unserved) mustArrange() {
	u.t.Helper()
	if err := u.desk.view.Sync(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
	if err := u.arrange(u.shown()); err != nil {
		u.t.Fatal(err)
	}
}
