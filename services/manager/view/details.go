package view

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
)

// shareFrom is the size of a delivery's record from which on receipts share their details. Managers of the version before do not know of that,
// and have to be able to read all that they could have written.
const shareFrom = 1 << 20

// EncodeDelivery encodes a delivery as it is stored. What is said of thousands of members alike is stored once.
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

// decodeDelivery undoes EncodeDelivery. It also reads what managers of the version before have stored.
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

// shareDetails returns the record with each detail that several receipts have stored once.
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
