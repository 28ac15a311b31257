package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// mostStored is what an etcd with its default settings takes at once.
const mostStored = 3 << 19

// crowd is a running delivery to so many members, with names as pods have them.
func crowd(members int) view.Delivery {
	delivery := stored("d")
	delivery.Delivery.State = groupv1.DeliveryState_DELIVERY_STATE_RUNNING
	for i := range members {
		delivery.Members = append(delivery.Members, &managerv1.Participant{Name: fmt.Sprintf("receiver-of-a-deployment-%05d", i), Incarnation: 1 << 60})
	}
	return delivery
}

// complete gives all members of a delivery a receipt each, except for the last ones.
func complete(delivery *view.Delivery, but int) {
	for _, participant := range delivery.GetMembers()[:len(delivery.GetMembers())-but] {
		delivery.Receipts = delivery.Receipts.With(participant.GetName(), view.Receipt{Receipt: &groupv1.Receipt{
			Member: participant.GetName(), State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE, Bytes: 1 << 20, Root: make([]byte, rootLength),
			ChangeTime: timestamppb.New(after(10)), Elapsed: durationpb.New(4 * time.Second),
		}})
	}
}

// The end of a delivery to 10,000 members has room in any etcd, however it ends and however much is measured of it, and none of its receipts is
// lost.
func TestEndOfALargeDeliveryHasRoom(t *testing.T) {
	const members = 10_000
	for name, test := range map[string]struct {
		complete int
		verdict  verdict
	}{
		"complete":     {members, verdict{ended: true}},
		"given up":     {members / 2, verdict{ended: true, reason: SourceChanged, detail: strings.Repeat("x", maxDetail)}},
		"failed":       {0, verdict{ended: true, reason: Canceled, detail: strings.Repeat("x", maxDetail)}},
		"not heard of": {0, verdict{ended: true}},
	} {
		t.Run(name, func(t *testing.T) {
			d, delivery := newDesk(), crowd(members)
			k := d.keep("d")
			for _, participant := range delivery.GetMembers() {
				k.progress.links[link{placement.AgentID("a"), placement.MemberID(participant.GetName())}] = &carriage{
					bytes: 1 << 20, stripes: &groupv1.Stripes{Count: 4, Reason: "gained", Why: strings.Repeat("y", 100)},
				}
			}
			complete(&delivery, members-test.complete)
			if test.verdict.reason != "" {
				test.verdict.failed = make(map[string]failure)
				facts := facts{}
				for _, participant := range delivery.GetMembers()[test.complete:] {
					facts.members = append(facts.members, memberFacts{name: participant.GetName()})
				}
				test.verdict.failAll(facts.members, test.verdict.reason, test.verdict.detail)
			}
			plan, record, err := d.planEnd(delivery, test.verdict, begin.Add(time.Minute))
			if err != nil || len(plan.Changes) == 0 {
				t.Fatal(err)
			}
			encoded, _, err := encodeEnded(record, delivery.Receipts)
			if err != nil || len(encoded) > mostStored-otherBytes {
				t.Fatalf("its record has %d bytes: %v", len(encoded), err)
			}
			if most := endBytes(crowd(members).DeliveryRecord) + otherBytes; len(encoded) > most {
				t.Errorf("its record has %d bytes, and is said to have %d at most", len(encoded), most)
			}
		})
	}
}

// The record of a delivery to a few members has all of it, as managers of the version before write it.
func TestEndOfASmallDeliveryIsWhole(t *testing.T) {
	d, delivery := newDesk(), crowd(100)
	complete(&delivery, 0)
	d.keep("d").progress.links[link{placement.AgentID("a"), placement.MemberID("m")}] = &carriage{bytes: 1}
	_, record, err := d.planEnd(delivery, verdict{ended: true}, begin.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	encoded, hasAll, err := encodeEnded(record, delivery.Receipts)
	read := new(managerv1.DeliveryRecord)
	if err != nil || !hasAll || proto.Unmarshal(encoded, read) != nil {
		t.Fatalf("has all: %v, %v", hasAll, err)
	}
	if d := read.GetDelivery(); len(d.GetReceipts()) != 100 || len(d.GetMeasurements().GetLinks()) != 1 || len(d.GetLeftOut()) > 0 {
		t.Errorf("%d receipts, %d links, without %v", len(d.GetReceipts()), len(d.GetMeasurements().GetLinks()), d.GetLeftOut())
	}
}

// Receipts that have no room in the record are shown like those that have.
func TestReceiptsBesideTheRecordAreShown(t *testing.T) {
	d, delivery := newDesk(), crowd(10)
	complete(&delivery, 3)
	for _, participant := range delivery.GetMembers()[7:] {
		delivery.Delivery.Receipts = append(delivery.Delivery.Receipts, &groupv1.Receipt{
			Member: participant.GetName(), State: groupv1.ReceiptState_RECEIPT_STATE_FAILED, Reason: Canceled,
		})
	}
	delivery.Delivery.State, delivery.Delivery.EndTime = groupv1.DeliveryState_DELIVERY_STATE_PARTIAL, timestamppb.New(after(20))
	delivery.Delivery.SentBytes, delivery.Delivery.Measurements = 8<<20, &groupv1.Measurements{SendBytesPerSecond: 4 << 20, Settled: true}
	for what, shown := range map[string]*groupv1.Delivery{"whole": d.Show(delivery), "in a list": d.row(delivery)} {
		if shown.GetCompleteCount() != 7 || shown.GetFailedCount() != 3 || shown.GetMemberCount() != 10 || shown.GetState() != groupv1.DeliveryState_DELIVERY_STATE_PARTIAL {
			t.Errorf("%s: %d complete, %d failed of %d: %v", what, shown.GetCompleteCount(), shown.GetFailedCount(), shown.GetMemberCount(), shown.GetState())
		}
	}
	shown := d.Show(delivery)
	if len(shown.GetReceipts()) != 10 || shown.GetReceipts()[0].GetStretch() != 2 {
		t.Errorf("%d receipts, the first %v", len(shown.GetReceipts()), shown.GetReceipts()[0])
	}
	if row := d.row(delivery); len(row.GetReceipts()) > 0 || row.GetMeasurements() != nil || row.GetSpec() != delivery.GetDelivery().GetSpec() {
		t.Errorf("a list has %v", row)
	}
}

// A delivery to more members than the store has room for is refused when it begins: it could not begin, or not end.
func TestMoreMembersThanTheStoreHasRoomFor(t *testing.T) {
	many := crowd(30_000).DeliveryRecord
	if err := checkRoom(crowd(10_000).DeliveryRecord, 0, mostStored); err != nil {
		t.Errorf("10,000 members: %v", err)
	}
	err := checkRoom(many, 0, mostStored)
	if !errors.Is(err, ErrManyMembers) || !strings.Contains(err.Error(), "30000 members") || !strings.Contains(err.Error(), "1.5 MiB") {
		t.Errorf("30,000 members: %v", err)
	}
	if err := checkRoom(many, 0, 4*mostStored); err != nil {
		t.Errorf("30,000 members where there is room: %v", err)
	}
	if err := checkRoom(many, 5*mostStored, 4*mostStored); !errors.Is(err, ErrManyMembers) {
		t.Errorf("with a tree that is too large: %v", err)
	}
}

// What is shown fits into a message, however many members there are, and says what it lacks.
func TestShownFitsAMessage(t *testing.T) {
	for _, test := range []struct {
		members int
		want    []string
	}{
		{100, nil},
		{700, []string{leftLinks}},
		{1300, []string{leftLinks, leftTree}},
		{2500, []string{leftLinks, leftTree, leftDetails}},
		{12_000, []string{leftLinks, leftTree, leftDetails, leftReceipts}},
	} {
		d := &groupv1.Delivery{MemberCount: uint32(test.members), Measurements: new(groupv1.Measurements)}
		for i := range test.members {
			name := fmt.Sprintf("%0300d", i) // longer than names are: fewer do
			d.Receipts = append(d.Receipts, &groupv1.Receipt{Member: name, Detail: strings.Repeat("d", 1000)})
			d.Tree = append(d.Tree, &groupv1.TreeNode{Id: name, Why: strings.Repeat("w", 1000)})
			d.Measurements.Links = append(d.Measurements.Links, &groupv1.LinkUse{To: name, Stripes: &groupv1.Stripes{Why: strings.Repeat("s", 2000)}})
		}
		fitMessage(d)
		if size := proto.Size(d); size > maxShown || !slices.Equal(d.GetLeftOut(), test.want) {
			t.Errorf("%d members: %d bytes without %v, want without %v", test.members, size, d.GetLeftOut(), test.want)
		}
		cut := slices.Contains(test.want, leftReceipts)
		if len(d.GetReceipts()) < test.members != cut || len(d.GetReceipts()) == 0 || int(d.GetMemberCount()) != test.members {
			t.Errorf("%d members: %d receipts", test.members, len(d.GetReceipts()))
		}
	}
}

// A stream to which tens of thousands have come and gone shows those that it began with, and who is there: its sender waits for them.
func TestThoseWhoCameLateAndAreDoneAreLeftOutFirst(t *testing.T) {
	d := new(groupv1.Delivery)
	for i := range 80_000 {
		receipt := &groupv1.Receipt{
			Member: fmt.Sprintf("%05d-receiver-of-a-deployment", i), Late: i%100 > 0, State: groupv1.ReceiptState_RECEIPT_STATE_FAILED, Reason: Left,
			Bytes: 1 << 40, ChangeTime: timestamppb.New(after(10)),
		}
		if i%1000 == 1 {
			receipt.State = groupv1.ReceiptState_RECEIPT_STATE_RECEIVING
		}
		d.Receipts = append(d.Receipts, receipt)
	}
	fitMessage(d)
	if size := proto.Size(d); size > maxShown || size < maxShown-200 || slices.Contains(d.GetLeftOut(), leftReceipts) {
		t.Fatalf("%d bytes of %d are shown, without %v", size, maxShown, d.GetLeftOut())
	}
	if !slices.IsSortedFunc(d.GetReceipts(), func(a, b *groupv1.Receipt) int { return strings.Compare(a.GetMember(), b.GetMember()) }) {
		t.Error("they are in another order")
	}
	awaited := 0
	for _, receipt := range d.GetReceipts() {
		if !receipt.GetLate() || receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_RECEIVING {
			awaited++
		}
	}
	if awaited != 800+80 {
		t.Errorf("%d are shown that began with it, or are there, want all 880", awaited)
	}
}
