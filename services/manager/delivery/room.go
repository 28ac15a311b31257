package delivery

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/bytesize"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

// What is stored of a delivery at once has to fit into one transaction, or the delivery could not begin, or never end. A store of the managers'
// own takes 4 MiB, another etcd with its default settings 1.5 MiB.

const (
	// maxRecord bounds the record of a delivery that has ended, except for what has no room elsewhere: the members without receipts.
	maxRecord = 1 << 20
	// receiptBytes is the most that a receipt takes, beside the name, if its member had none before the delivery ended: what is said of several
	// members at once is not in it. datagramBytes is its account of a stream in datagrams.
	receiptBytes, datagramBytes = 60, 80
	// otherBytes is what a transaction has beside records, and a record beside those of members.
	otherBytes = 16 << 10
)

// checkRoom refuses a delivery to more members than there is room for, when it begins or when it ends.
func checkRoom(record *managerv1.DeliveryRecord, begin, most int) error {
	need := max(begin, endBytes(record)) + otherBytes
	if need <= most {
		return nil
	}
	members := len(record.GetMembers())
	return fmt.Errorf("deliver to %d members of group %q: %w: some %d of such names are the most, for the managers' store takes %s at once, and this is %s", members,
		record.GetDelivery().GetGroup(), ErrManyMembers, members*most/need, bytesize.Short(uint64(most)), bytesize.Short(uint64(need)))
}

// endBytes returns how large the record of a delivery is at most when it ends, with all left out that can be. It counts a receipt for every
// member: there may have been none before.
func endBytes(record *managerv1.DeliveryRecord) int {
	each := receiptBytes
	if record.GetDelivery().GetSpec().GetDatagrams() != nil {
		each += datagramBytes
	}
	size := proto.Size(record)
	for _, participant := range record.GetMembers() {
		size += len(participant.GetName()) + each
	}
	return size
}

// encodeEnded encodes the record of a delivery that has ended. If it is too large, receipts that are already written stay where they are, and
// what links carried is left out if need be. hasAll says that all receipts are in the record.
func encodeEnded(record *managerv1.DeliveryRecord, written view.Receipts) (encoded []byte, hasAll bool, err error) {
	if encoded, err = view.EncodeDelivery(record); err != nil || len(encoded) <= maxRecord {
		return encoded, true, err
	}
	shorter := proto.CloneOf(record)
	shorter.Delivery.Receipts = withoutWritten(shorter.GetDelivery().GetReceipts(), written)
	if encoded, err = view.EncodeDelivery(shorter); err != nil || len(encoded) <= maxRecord {
		return encoded, false, err
	}
	leaveOutLinks(shorter.GetDelivery())
	encoded, err = view.EncodeDelivery(shorter)
	return encoded, false, err
}

// withoutWritten returns the receipts that are not written by themselves.
func withoutWritten(receipts []*groupv1.Receipt, written view.Receipts) []*groupv1.Receipt {
	return slices.DeleteFunc(receipts, func(receipt *groupv1.Receipt) bool {
		_, is := written.Of(receipt.GetMember())
		return is
	})
}

// addStretch fills in the stretch of receipts that were not in the record when it was measured.
func addStretch(record *managerv1.DeliveryRecord) {
	shown := record.GetDelivery()
	sending := record.GetSendTime().AsDuration()
	if each := shown.GetMeasurements().GetSendBytesPerSecond(); record.GetSendTime() == nil && each > 0 { // an earlier manager measured it
		sending = time.Duration(float64(shown.GetSentBytes()) / float64(each) * float64(time.Second))
	}
	if sending == 0 {
		return
	}
	for _, receipt := range shown.GetReceipts() {
		if receipt.GetElapsed() != nil && receipt.GetStretch() == 0 && !receipt.GetLate() {
			receipt.Stretch = stretch(receipt.GetElapsed().AsDuration(), sending)
		}
	}
}

// maxShown is how large a delivery is shown at most: clients take messages of 4 MiB.
const maxShown = 3 << 20

// What is left out of a delivery that is too large, for programs.
const (
	leftLinks    = "links"
	leftTree     = "tree"
	leftDetails  = "details"
	leftLate     = "late receipts"
	leftReceipts = "receipts"
)

// fitMessage leaves out of a delivery what does not fit into a message: first what most can do without, and then receipts from the
// last on, those of members that came late before others.
func fitMessage(d *groupv1.Delivery) {
	for _, leaveOut := range []func(*groupv1.Delivery){leaveOutLinks, leaveOutTree, leaveOutDetails, leaveOutLate, leaveOutReceipts} {
		if proto.Size(d) <= maxShown {
			return
		}
		leaveOut(d)
	}
}

func leaveOutLinks(d *groupv1.Delivery) {
	if len(d.GetMeasurements().GetLinks()) > 0 {
		d.Measurements.Links, d.LeftOut = nil, append(d.LeftOut, leftLinks)
	}
}

func leaveOutTree(d *groupv1.Delivery) {
	if len(d.GetTree()) > 0 {
		d.Tree, d.LeftOut = nil, append(d.LeftOut, leftTree)
	}
}

func leaveOutDetails(d *groupv1.Delivery) {
	for _, receipt := range d.GetReceipts() {
		receipt.Detail = ""
	}
	d.LeftOut = append(d.LeftOut, leftDetails)
}

// leaveOutLate leaves out who came late and is done. A stream may go on for months, while members come and go with ever new names, and its
// sender has to hear of those that it began with: it keeps what they lack.
func leaveOutLate(d *groupv1.Delivery) {
	leaveOutSome(d, leftLate, func(receipt *groupv1.Receipt) bool {
		return receipt.GetLate() && receipt.GetState() != groupv1.ReceiptState_RECEIPT_STATE_RECEIVING
	})
}

func leaveOutReceipts(d *groupv1.Delivery) {
	leaveOutSome(d, leftReceipts, func(*groupv1.Receipt) bool { return true })
}

// leaveOutSome leaves out as many of some receipts as has to be.
func leaveOutSome(d *groupv1.Delivery, word string, mayGo func(*groupv1.Receipt) bool) {
	if !slices.ContainsFunc(d.GetReceipts(), mayGo) {
		return
	}
	d.LeftOut = append(d.LeftOut, word)
	const around = 3 // the bytes that a message inside another takes at least beside its own
	excess := proto.Size(d) - maxShown
	kept := len(d.GetReceipts())
	for _, receipt := range slices.Backward(d.GetReceipts()) {
		if excess > 0 && mayGo(receipt) {
			excess -= proto.Size(receipt) + around
		} else {
			kept--
			d.Receipts[kept] = receipt
		}
	}
	d.Receipts = d.GetReceipts()[kept:]
}
