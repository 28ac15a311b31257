package view

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
)

// failedAt is a delivery that failed, for each of these reasons, at so many members.
func failedAt(members int, details ...string) *managerv1.DeliveryRecord {
	record := &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Id: "d"}}
	for i := range members {
		record.Delivery.Receipts = append(record.Delivery.Receipts, &groupv1.Receipt{Member: fmt.Sprintf("m%05d", i), Detail: details[i%len(details)]})
	}
	return record
}

// What is said of thousands of members alike is stored once, and read as it was said.
func TestSharedDetailsAreStoredOnce(t *testing.T) {
	long, other := strings.Repeat("why ", 250), strings.Repeat("or ", 100)
	record := failedAt(10_000, long, "", other, long)
	record.Delivery.Receipts[7].Detail = "of this one alone"
	before := proto.CloneOf(record)
	encoded, err := EncodeDelivery(record)
	if err != nil || len(encoded) > 300_000 {
		t.Errorf("stored in %d bytes: %v", len(encoded), err)
	}
	if !proto.Equal(record, before) {
		t.Error("the record itself has changed")
	}
	read, err := decodeDelivery(encoded)
	if err != nil || !proto.Equal(read, before) {
		t.Errorf("what is read is not what was stored: %v", err)
	}
	again, err := EncodeDelivery(read)
	if err != nil || len(again) != len(encoded) {
		t.Errorf("stored again in %d bytes, not %d: %v", len(again), len(encoded), err)
	}
}

// A manager of the version before reads all of what it could have written itself, and this one reads what that manager has written.
func TestSmallRecordsShareNothing(t *testing.T) {
	record := failedAt(1000, "the same")
	encoded, err := EncodeDelivery(record)
	if err != nil {
		t.Fatal(err)
	}
	as := new(managerv1.DeliveryRecord)
	if err := proto.Unmarshal(encoded, as); err != nil || !proto.Equal(as, record) {
		t.Errorf("an earlier manager reads something else: %v", err)
	}
}

// A manager of the version before writes a record again without knowing what shared details are: they stay.
func TestWhatAnEarlierManagerWritesAgainIsRead(t *testing.T) {
	record := failedAt(2000, strings.Repeat("why ", 250))
	encoded, err := EncodeDelivery(record)
	if err != nil {
		t.Fatal(err)
	}
	shared := new(managerv1.DeliveryRecord)
	if err := proto.Unmarshal(encoded, shared); err != nil {
		t.Fatal(err)
	}
	shared.Delivery.Measurements = &groupv1.Measurements{Settled: true} // fields that the earlier manager does not know stay as they are
	again, err := proto.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	read, err := decodeDelivery(again)
	if err != nil || !read.GetDelivery().GetMeasurements().GetSettled() || read.GetDelivery().GetReceipts()[1999].GetDetail() != record.GetDelivery().GetReceipts()[0].GetDetail() {
		t.Errorf("read %v receipts: %v", len(read.GetDelivery().GetReceipts()), err)
	}
	shared.Details[0].Receipts = []uint32{5000}
	if damaged, err := proto.Marshal(shared); err != nil {
		t.Error(err)
	} else if _, err := decodeDelivery(damaged); err != nil {
		t.Error(err)
	}
}
