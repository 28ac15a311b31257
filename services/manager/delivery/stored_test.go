package delivery

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/ledger/ledgertest"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

// leading returns the desk of a manager that leads, of which nothing runs by time.
func leading(t *testing.T) *Desk {
	t.Helper()
	return leadingIn(t, t.TempDir())
}

// leadingIn is leading with the store in a directory.
func leadingIn(t *testing.T, dir string) *Desk {
	t.Helper()
	written, state, shown := ledgertest.LeadingIn(t, dir)
	return Lead(written, state, shown, mute{}, survey.Lead(shown, nil), hearsAll{}, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
}

// mute is a manager without credentials: it signs nothing.
type mute struct{}

func (mute) Credentials() (*identity.Credentials, error) { return nil, errors.New("none") }

// write writes a delivery as it is, with its receipts.
func (d *Desk) write(t *testing.T, delivery view.Delivery) {
	t.Helper()
	encoded, err := view.EncodeDelivery(delivery.DeliveryRecord)
	if err != nil {
		t.Fatal(err)
	}
	changes := []store.Op{store.Put(view.DeliveryKey(delivery.ID()), encoded)}
	for name, receipt := range delivery.Receipts.All() {
		encoded, err := proto.Marshal(receipt.Receipt)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, store.Put(view.ReceiptKey(delivery.ID(), name), encoded))
	}
	for batch := range slices.Chunk(changes, store.MaxOps) {
		if _, err := d.store.Commit(t.Context(), d.ledger.Term(), nil, batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A delivery to thousands of members ends, is read as it ended, is measured for good, and is forgotten with all that is stored of it.
func TestLargeDeliveryFromItsEndUntilItIsForgotten(t *testing.T) {
	const members, failed = 8000, 2000
	d, delivery := leading(t), crowd(members)
	complete(&delivery, failed)
	d.write(t, delivery)
	long := strings.Repeat("why ", maxDetail/4)
	if _, err := d.Seal(t.Context(), &groupv1.SealDeliveryRequest{Delivery: "d", Sender: "s", Reason: SourceChanged, Detail: long}); err != nil {
		t.Fatal(err)
	}
	read := func() view.Delivery {
		ended, err := d.delivery("d")
		if err != nil || ended.GetDelivery().GetState() != groupv1.DeliveryState_DELIVERY_STATE_PARTIAL {
			t.Fatalf("it is %v: %v", ended.GetDelivery().GetState(), err)
		}
		return ended
	}
	whole := func(when string) {
		shown := d.show(read())
		last := shown.GetReceipts()[len(shown.GetReceipts())-1]
		if len(shown.GetReceipts()) != members || shown.GetCompleteCount() != members-failed || shown.GetFailedCount() != failed || last.GetDetail() != long {
			t.Errorf("%s: %d receipts, %d complete, %d failed: %.20q", when, len(shown.GetReceipts()), shown.GetCompleteCount(), shown.GetFailedCount(), last.GetDetail())
		}
	}
	whole("at its end")
	if err := newKeeper(d, read()).writeMeasurements(t.Context(), read(), members-failed); err != nil {
		t.Fatal(err)
	}
	whole("when it is measured")
	old := read()
	old.DeliveryRecord = proto.CloneOf(old.DeliveryRecord)
	old.Delivery.EndTime.Seconds -= int64((forgetAfter + time.Hour).Seconds())
	old.Receipts = view.Receipts{}
	d.write(t, old)
	d.forgetOld(t.Context())
	for _, prefix := range []string{view.DeliveryKey("d"), view.ReceiptsPrefix("d")} {
		if left, _, err := d.store.List(t.Context(), prefix); err != nil || len(left) > 0 {
			t.Errorf("%d keys are left below %s: %v", len(left), prefix, err)
		}
	}
}

// A manager that stops leading goes on to show all members of a delivery, until those who watch are told that another one leads. A member
// without a receipt would not be waited for, and what it lacks would be given back.
func TestWhoIsUnderWayIsShownUntilTheEnd(t *testing.T) {
	d, delivery := leading(t), crowd(3)
	delivery.Receipts = delivery.Receipts.With("m", view.Receipt{Receipt: &groupv1.Receipt{Member: "m", State: isFailed}})
	delivery.Members[0].Name = "m"
	d.write(t, delivery)
	k := d.adopt(delivery)
	shown, ended := make(chan *groupv1.WatchDeliveryResponse), make(chan error, 1)
	go func() {
		ended <- d.Watch(t.Context(), "d", false, func(message *groupv1.WatchDeliveryResponse) error {
			shown <- message
			return nil
		})
	}()
	for i := range 4 {
		if i == 1 {
			d.close(k)
			k.announce()
		}
		receipts := (<-shown).GetDelivery().GetReceipts()
		if len(receipts) != 3 || receipts[0].GetState() != isFailed || !receipts[1].GetBytesUnknown() && i > 0 {
			t.Errorf("message %d has %v", i, receipts)
		}
	}
	close(d.ended)
	for {
		select {
		case <-shown:
			continue
		case err := <-ended:
			if !errors.Is(err, ledger.ErrNotLeading) {
				t.Error(err)
			}
		}
		return
	}
}

// put stores a record as it is.
func (d *Desk) put(t *testing.T, key string, record proto.Message) {
	t.Helper()
	encoded, err := proto.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Commit(t.Context(), d.ledger.Term(), nil, []store.Op{store.Put(key, encoded)}); err != nil {
		t.Fatal(err)
	}
}

// Where a tree has no room for another change, the nodes in it are told what there is to do all the same.
func TestTreeThatCannotGrowGoesOn(t *testing.T) {
	d, delivery := leading(t), crowd(1)
	delivery.Delivery.Group, delivery.Delivery.CreateTime = "g", timestamppb.Now()
	m := delivery.GetMembers()[0].GetName()
	d.put(t, view.GroupKey("g"), &groupv1.Group{Name: "g"})
	for name, incarnation := range map[string]uint64{"s": 0, m: 1 << 60} {
		roles := []groupv1.Role{groupv1.Role_ROLE_SEND, groupv1.Role_ROLE_RECEIVE}
		d.put(t, view.MemberKey("g", name), &groupv1.Member{Group: "g", Name: name, Incarnation: incarnation, Roles: roles})
	}
	d.write(t, delivery)
	delivery.TreeChanged, delivery.Tree = 1, view.NewTree(&managerv1.TreeRecord{Version: 1, Nodes: []*managerv1.TreeNode{
		{Id: "member/s"}, {Id: "agent/lost", Parent: "member/s", Cluster: strings.Repeat("x", 5<<20)}, {Id: "member/" + m, Parent: "agent/lost"},
	}}, 1, 1)
	k := newKeeper(d, delivery)
	k.readTree(delivery)
	if _, _, err := k.arrange(t.Context(), delivery, time.Now()); !errors.Is(err, store.ErrTooLarge) {
		t.Fatalf("the tree changes: %v, want %v", err, store.ErrTooLarge)
	}
	if _, err := k.work(t.Context(), delivery, time.Now()); err != nil || k.assigned[placement.MemberID(m)] == nil {
		t.Errorf("%v; assigned is %d", err, len(k.assigned))
	}
}
