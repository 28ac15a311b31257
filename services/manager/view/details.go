package view

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
)

// shareFrom is how large the record of a delivery is in which receipts share their details. Managers of the version before do not
// know of that, and have to read all of what they could have written.
const shareFrom = 1 << 20

// EncodeDelivery is how a delivery is stored. What is said of thousands of members alike is stored once.
func EncodeDelivery(record *managerv1.DeliveryRecord) ([]byte, error) {
	if proto.Size(record) >= shareFrom {
		record = shareDetails(record)
	}
	encoded, err := proto.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode delivery: %w", err)
	}
	return encoded, nil
}

// decodeDelivery is the way back, also from what managers of the version before have stored.
func decodeDelivery(stored []byte) (*managerv1.DeliveryRecord, error) {
	record := new(managerv1.DeliveryRecord)
	if err := proto.Unmarshal(stored, record); err != nil {
		return nil, err
	}
	receipts := record.GetDelivery().GetReceipts()
	for _, shared := range record.GetDetails() {
		for _, place := range shared.GetReceipts() {
			if int(place) < len(receipts) {
				receipts[place].Detail = shared.GetDetail()
			}
		}
	}
	record.Details = nil
	return record, nil
}

// shareDetails returns the record with what several receipts have as their detail stored once.
func shareDetails(record *managerv1.DeliveryRecord) *managerv1.DeliveryRecord {
	places := make(map[string][]uint32)
	for i, receipt := range record.GetDelivery().GetReceipts() {
		if detail := receipt.GetDetail(); detail != "" {
			places[detail] = append(places[detail], uint32(i))
		}
	}
	record = proto.CloneOf(record)
	for i, receipt := range record.GetDelivery().GetReceipts() {
		at := places[receipt.GetDetail()]
		if len(at) < 2 {
			continue
		}
		if at[0] == uint32(i) {
			record.Details = append(record.Details, &managerv1.SharedDetail{Detail: receipt.GetDetail(), Receipts: at})
		}
		receipt.Detail = ""
	}
	return record
}
