package delivery

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
	"github.com/groupcast/groupcast/services/manager/view"
)

// leadingOnDisk returns the desk of a manager that leads, whose store has a disk of its own, and fills that: what is left is enough for
// what ends something, and for small changes of trees.
func leadingOnDisk(t *testing.T) (d *Desk, fill func()) {
	disk := testdisk.Memory(t, "size=200m")
	d = leadingIn(t, filepath.Join(disk, "store"))
	return d, func() { storetest.Fill(t, filepath.Join(disk, "others"), 40<<20) }
}

func (u *unserved) mustWork() (due time.Time) {
	u.t.Helper()
	if err := u.desk.view.Sync(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
	due, err := u.work(u.t.Context(), u.shown(), time.Now())
	if err != nil {
		u.t.Fatal(err)
	}
	return due
}

// The store has no room. A member that leaves has failed all the same, and those below an agent that is lost are fed by another.
func TestDeliveryGoesOnBesideAFullStore(t *testing.T) {
	d, fill := leadingOnDisk(t)
	u := serveBy(t, d, fileSpec())
	fill()
	left := []store.Op{store.Put(view.EndedKey("g", "m2"), view.EncodeEnded(0, groupv1.MemberState_MEMBER_STATE_LEFT)), store.Delete(view.MemberKey("g", "m2"))}
	if _, err := d.store.Commit(t.Context(), d.ledger.Term(), nil, left); err != nil {
		t.Fatal(err)
	}
	d.agents["a"].goodbye = true
	for range 2 {
		u.mustWork()
	}
	if state := u.finalState(u.shown(), "m2"); state != groupv1.ReceiptState_RECEIPT_STATE_FAILED {
		t.Errorf("the member that left is %v", state)
	}
	if by, _ := u.tree.Parent("member/m1"); by != "agent/b" {
		t.Errorf("the other is fed by %q", by)
	}
}

// Where the store has no room for a change, all are told what there is to do without it, and it is tried again.
func TestAllAreToldBesideAFullStore(t *testing.T) {
	d, fill := leadingOnDisk(t)
	u := serveBy(t, d, fileSpec())
	d.join(t, "late", strings.Repeat("z", 100_000))
	fill()
	due := u.mustWork()
	if u.assigned[placement.MemberID("m1")].GetParent() == nil {
		t.Error("a member is not told who feeds it")
	}
	if soon := time.Now().Add(fullPause); moment.Latest(due, soon) != soon {
		t.Errorf("the change is tried again in %v", time.Until(due))
	}
	if u.failedAt.IsZero() {
		t.Error("who waits for that counts as stuck")
	}
}

// Where the store has no room for a large tree, what is new of it is stored, however much that is by then.
func TestTreesAreStoredByWhatIsNewBesideAFullStore(t *testing.T) {
	d, fill := leadingOnDisk(t)
	f := growBy(t, d, 1000)
	i := 0
	for ; f.shown().Tree.HoldsStepOf(longestDetail); i++ {
		f.come(i)
	}
	fill()
	f.come(i)
	f.wantTaken()
}
