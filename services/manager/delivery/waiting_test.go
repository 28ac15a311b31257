package delivery

import (
	"slices"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// feeds returns whom an agent is told to feed.
func (u *unserved) feeds(agent string) (names []string) {
	u.t.Helper()
	if err := u.desk.view.Sync(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
	u.publish(u.shown(), time.Now())
	for _, child := range u.assigned[placement.AgentID(agent)].GetChildren() {
		names = append(names, identity.Named(child).String())
	}
	return names
}

// Of a delivery that has ended agents keep nothing for a member that has gone, or has failed: they would have no room for others. It is fed again
// when it is back.
func TestWhoHasGoneIsNotWaitedForAfterTheEnd(t *testing.T) {
	u := serve(t, fileSpec())
	u.end(
		&groupv1.Receipt{Member: "m1", State: groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN},
		&groupv1.Receipt{Member: "m2", State: isFailed, Reason: NoRoom},
	)
	for _, tt := range []struct {
		change func(t *testing.T, name string)
		want   []string
	}{
		{func(*testing.T, string) {}, []string{"member/m1"}},
		{u.desk.leave, nil},
		{func(t *testing.T, name string) { u.desk.join(t, name, "") }, []string{"member/m1"}},
	} {
		tt.change(t, "m1")
		if got := u.feeds("a"); !slices.Equal(got, tt.want) {
			t.Errorf("the agent feeds %q, want %q", got, tt.want)
		}
	}
}

// An agent below which nobody waits any more finds its feeder's door closed, for the feeder is not to feed it. What it says of that takes no
// agent out that feeds others.
func TestWhoIsLeftOutBlamesNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		m2   groupv1.ReceiptState
		want bool
	}{"somebody waits below it": {groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED, true}, "nobody does": {isComplete, false}} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			u.stand(
				&managerv1.TreeNode{Id: "member/s"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
				&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "member/m2", Parent: "agent/b"},
			)
			if tt.m2 != groupv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED {
				u.desk.put(t, view.ReceiptKey("d", "m2"), &groupv1.Receipt{Member: "m2", State: tt.m2})
			}
			u.feeds("a")
			u.say(map[string]*groupv1.DeliveryReport{"b": {Lost: "a"}})
			u.progress.nodes[placement.AgentID("b")].lost, u.progress.nodes[placement.AgentID("b")].lostSince = "a", time.Now().Add(-time.Minute)
			since, _ := u.blame(placement.AgentID("a"), sight{heard: time.Now()})
			if blamed := !since.IsZero(); blamed != tt.want {
				t.Errorf("the agent above is blamed: %t", blamed)
			}
		})
	}
}

// An agent below which nobody waits any more is fed by nobody: it would find its feeder's door closed, and say for ever that it cannot reach
// that one. What it says of that meanwhile does not end a stream whose source pauses.
func TestWhoIsLeftOutEndsNoPausedStream(t *testing.T) {
	u := serve(t, &groupv1.DeliverySpec{Kind: groupv1.DeliveryKind_DELIVERY_KIND_STREAM, LengthUnknown: true})
	u.stand(
		&managerv1.TreeNode{Id: "member/s"},
		&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
		&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a"},
		&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
	)
	u.desk.put(t, view.ReceiptKey("d", "m2"), &groupv1.Receipt{Member: "m2", State: isFailed, Reason: Left})
	u.desk.leave(t, "m2")
	u.feeds("a")
	if a, b := u.assigned[placement.AgentID("a")].GetParent(), u.assigned[placement.AgentID("b")].GetParent(); a.GetName() != "s" || b != nil {
		t.Errorf("a is fed by %v, and b by %v", a, b)
	}
	u.say(map[string]*groupv1.DeliveryReport{
		"s": {Bytes: 10}, "m1": {Bytes: 10}, "b": {Bytes: 5, Lost: "a"},
		"a": {Bytes: 10, Children: []*groupv1.ChildReport{{Name: "m1", Connected: true}}},
	})
	begun := time.Now()
	u.progress.moved, u.desk.started = begun, begun
	for now := begun; now.Sub(begun) < 2*BusyPatience; now = now.Add(time.Second) {
		u.observe(u.shown(), now)
		if v := decide(u.facts(u.shown(), now)); len(v.failed) > 0 {
			t.Fatalf("after %v: %+v", now.Sub(begun), v.failed)
		}
	}
}
