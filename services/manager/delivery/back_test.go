package delivery

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
)

// end has the delivery have ended, with receipts of those that were there at the start.
func (u *unserved) end(receipts ...*groupv1.Receipt) {
	u.t.Helper()
	ended := u.shown()
	ended.DeliveryRecord = proto.CloneOf(ended.DeliveryRecord)
	ended.Delivery.State, ended.Delivery.EndTime, ended.Delivery.Receipts = groupv1.DeliveryState_DELIVERY_STATE_PARTIAL, timestamppb.Now(), receipts
	u.desk.write(u.t, ended)
}

// A tree that is made anew after the end of its delivery has only members that it had: agents that begin anew have nothing for others.
func TestTreeOfAnEndedDeliveryTakesNobodyIn(t *testing.T) {
	u := serve(t, fileSpec())
	u.desk.join(t, "late", "")
	u.stand(
		&managerv1.TreeNode{Id: "member/s"},
		&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
		&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
	)
	u.end(&groupv1.Receipt{Member: "m1", State: groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN}, &groupv1.Receipt{Member: "m2", State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE})
	u.desk.agents["a"].goodbye = true
	if err := u.arrange(u.shown()); err != nil {
		t.Fatal(err)
	}
	if by, _ := u.tree.Parent("member/m1"); by != "agent/b" {
		t.Errorf("m1 is fed by %q", by)
	}
	if _, has := u.tree.Node("member/late"); has {
		t.Error("late is told that it is fed, by an agent that has nothing")
	}
}

// Nobody waits for an ended delivery whose members that come late get a newer one of its name, except those whom it feeds already.
func TestNobodyWaitsForWhatIsSuperseded(t *testing.T) {
	const isUnknown, isComplete = groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN, groupv1.ReceiptState_RECEIPT_STATE_COMPLETE
	for name, test := range map[string]struct {
		m1    groupv1.ReceiptState
		late  bool
		newer string // the name of the object that was delivered since
		want  bool
	}{
		"a member has come":                               {isComplete, true, "other", true},
		"it gets a newer one":                             {isComplete, true, "one", false},
		"one that is fed has not said that it has all":    {isUnknown, true, "one", true},
		"all have it":                                     {isComplete, false, "other", false},
		"one that is fed has not, and nobody else is new": {isUnknown, false, "other", true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := fileSpec()
			spec.Name = "one"
			u := serve(t, spec)
			if test.late {
				u.desk.join(t, "late", "")
			}
			u.end(&groupv1.Receipt{Member: "m1", State: test.m1}, &groupv1.Receipt{Member: "m2", State: isComplete})
			newer := stored("newer")
			newer.Delivery.Spec = fileSpec()
			newer.Delivery.Spec.Name, newer.Delivery.CreateTime, newer.Delivery.State = test.newer, timestamppb.Now(), groupv1.DeliveryState_DELIVERY_STATE_RUNNING
			u.desk.write(t, newer)
			if got := u.awaited(u.shown()); got != test.want {
				t.Errorf("somebody waits for it: %t, want %t", got, test.want)
			}
		})
	}
}

// A member that has left has failed. It counts as if it had not as long as it is back, and its receipt is what it says then.
func TestWhoLeftAndIsBackIsWaitedFor(t *testing.T) {
	u := serve(t, fileSpec())
	if err := u.desk.fail(t.Context(), u.shown(), map[string]failure{"m1": {Left, ""}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if shown := u.desk.show(u.shown()); shown.GetFailedCount() != 0 || shown.GetReceipts()[0].GetState() != groupv1.ReceiptState_RECEIPT_STATE_RECEIVING {
		t.Errorf("while it is back: %v", shown)
	}
	if facts := u.facts(u.shown(), time.Now()); !facts.members[0].waits() {
		t.Error("nobody waits for it though it is back")
	}
	u.desk.leave(t, "m1")
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown := u.desk.show(u.shown()); shown.GetFailedCount() != 1 || shown.GetReceipts()[0].GetReason() != Left {
		t.Errorf("when it has left again: %v", shown)
	}
	if facts := u.facts(u.shown(), time.Now()); facts.members[0].waits() {
		t.Error("it is waited for though it has left")
	}
}
