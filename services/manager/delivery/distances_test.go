package delivery

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/algo/reshape"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

// measured is a delivery to m1, which is near agent a, in a group whose member late is near agent b and not in the tree.
func measured(t *testing.T) *unserved {
	t.Helper()
	u := serve(t, fileSpec())
	u.desk.survey = survey.Lead(u.desk.view, nil) // one that has not looked lately
	u.stand(
		&managerv1.TreeNode{Id: "member/s"},
		&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
		&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a"},
		&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
		&managerv1.TreeNode{Id: "member/m2", Parent: "agent/a"},
	)
	u.desk.measure("m1", 5*time.Millisecond, 60*time.Millisecond)
	u.desk.measure("late", 60*time.Millisecond, 5*time.Millisecond)
	for _, agent := range []string{"a", "b"} { // the survey looks again at what is measured
		known, _ := u.desk.view.Agent(agent)
		u.desk.put(t, view.AgentKey(agent), known.Agent)
	}
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

// Deliveries that run hold one copy of what is measured together, also those whose trees have long been as they are.
func TestRunningDeliveriesGoByWhatIsMeasuredNow(t *testing.T) {
	u := measured(t)
	goesByNow := func() bool { return u.tree.Measured(u.desk.survey.Measured("g", 0).RTT) == u.tree }
	if u.mustArrange(); goesByNow() {
		t.Fatal("it went by what was not measured yet, or looks each time")
	}
	u.remeasured = time.Now().Add(-reshape.SeekPause)
	if u.mustArrange(); !goesByNow() {
		t.Error("it goes by what was measured when its tree last changed")
	}
}

// What is measured of a group would be held once for each delivery that is kept. One that has ended holds none of it, and who comes late all the
// same is fed by the agent that is near.
func TestEndedDeliveryHoldsNothingMeasured(t *testing.T) {
	u := measured(t)
	if u.tree.Light() == u.tree {
		t.Fatal("while it runs it holds nothing")
	}
	kept := u.shown()
	kept.DeliveryRecord = proto.CloneOf(kept.DeliveryRecord)
	kept.Delivery.Sealed, kept.Delivery.Length, kept.Delivery.Spec.Keep = true, 1000, durationpb.New(time.Hour)
	u.desk.write(t, kept)
	all := &groupv1.DeliveryReport{Bytes: 1000, HeldBytes: 1000}
	u.say(map[string]*groupv1.DeliveryReport{"a": all, "b": all})
	u.end(
		&groupv1.Receipt{Member: "m1", State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE},
		&groupv1.Receipt{Member: "m2", State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE},
	)
	if u.mustWork(); u.tree.Light() != u.tree {
		t.Error("it has ended, and holds what is measured")
	}
	u.desk.join(t, "late", "")
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u.mustWork(); u.tree.Light() != u.tree {
		t.Error("somebody came late, and it holds what is measured again")
	}
	if by, _ := u.tree.Parent("member/late"); by != "agent/b" {
		t.Errorf("late is fed by %q", by)
	}
}
