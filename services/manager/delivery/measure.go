package delivery

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// measuring computes the evaluation indices of paper 000, section IV-B: "the
// reception throughput is defined as the minimum value of the reception throughput
// of each member", "the effective throughput is defined as T_r / D, where T_r and D
// represent the reception throughput and the transmission rate of the sender", "the
// cache ratio is defined as C_max / D_max, where C_max and D_max represent the
// maximum cache data size and transmitted data size".
type measuring struct {
	record   *managerv1.DeliveryRecord
	progress *progress
	now      time.Time // or when the delivery ended
}

func (m measuring) measure() {
	d := m.record.GetDelivery()
	sending, known := m.sendTime()
	result := &groupv1.Measurements{Links: m.links(), Caches: m.caches(), CarriedBytes: m.carried()}
	if m.isReceived() {
		result.ReceptionBytesPerSecond = m.ofCarried(m.reception())
	}
	m.record.SendTime = nil
	if known {
		result.SendBytesPerSecond, m.record.SendTime = rate(m.carriedWhileSending(), sending), durationpb.New(sending)
	}
	if result.GetSendBytesPerSecond() > 0 {
		result.EffectiveThroughput = float64(result.GetReceptionBytesPerSecond()) / float64(result.GetSendBytesPerSecond())
	}
	d.Measurements = result
	for _, receipt := range d.GetReceipts() {
		if receipt.GetElapsed() != nil && known {
			receipt.Stretch = stretch(receipt.GetElapsed().AsDuration(), sending)
		}
	}
}

// isReceived reports whether there is a reception throughput: something was sent, and the delivery still runs or has ended complete. A member
// at which it failed is not taken for the slowest.
func (m measuring) isReceived() bool {
	d := m.record.GetDelivery()
	return d.GetSentBytes() > 0 && (d.GetEndTime() == nil || d.GetState() == groupv1.DeliveryState_DELIVERY_STATE_COMPLETE)
}

// carried is how much the sender sent: less than up to where it is if all had a part already, and more if an agent was lost to which it had
// sent that. What it has not told of any link yet counts as sent.
func (m measuring) carried() uint64 { return m.progress.sentOver() + m.untold() }

// untold is how much the sender has sent that it has not told of any link. Of a directory with hashes it is taken to be nothing: all may have
// had what is left.
func (m measuring) untold() uint64 {
	if m.progress.hashed && m.progress.nodes[m.progress.sender] != nil {
		return 0
	}
	upTo := m.record.GetDelivery().GetSentBytes()
	return upTo - min(upTo, m.progress.nodes[m.progress.sender].reported().GetBytes())
}

// carriedWhileSending is how much the sender sent in its time of sending, not what it sent again for somebody after that.
func (m measuring) carriedWhileSending() uint64 {
	if m.progress.sent.IsZero() {
		return m.carried()
	}
	return m.progress.sentOnce + m.untold()
}

// ofCarried returns the part of a rate that is due to what was sent. The rate is how fast a member got nearer to the end: where all have a half
// already, each byte sent takes it twice as far. The part is the same for all, though one may lack more than another: a member that lacks
// little would otherwise seem slow.
func (m measuring) ofCarried(rate uint64) uint64 {
	upTo := m.record.GetDelivery().GetSentBytes()
	return uint64(float64(rate) * min(1, float64(m.carried())/float64(max(upTo, 1))))
}

// sendTime returns how long the sender took to send what it has sent, if that is known. It may not be: the sender may have sent all before this
// manager led. A stream, however, is sealed when all of it is sent; and where members had the end already, the last that was sent is known.
func (m measuring) sendTime() (time.Duration, bool) {
	d := m.record.GetDelivery()
	switch sealed := m.record.GetSealTime(); {
	case !m.progress.sent.IsZero():
		return m.progress.sent.Sub(m.progress.begun), true
	case sealed == nil || d.GetSentBytes() < d.GetLength():
		return m.now.Sub(m.progress.begun), true
	case d.GetSpec().GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_STREAM:
		return max(sealed.AsTime().Sub(m.progress.begun), 0), true
	case !m.progress.inherited:
		last, sent := m.progress.lastSent()
		return last.Sub(m.progress.begun), sent
	}
	return 0, false
}

// reception returns the smallest rate of the members that were joined at the start.
func (m measuring) reception() uint64 {
	final := make(map[string]*groupv1.Receipt)
	for _, receipt := range m.record.GetDelivery().GetReceipts() {
		final[receipt.GetMember()] = receipt
	}
	var smallest *uint64
	for _, participant := range m.record.GetMembers() {
		r := m.memberRate(participant.GetName(), final[participant.GetName()])
		if smallest == nil || r < *smallest {
			smallest = &r
		}
	}
	if smallest == nil {
		return 0
	}
	return *smallest
}

func (m measuring) memberRate(name string, receipt *groupv1.Receipt) uint64 {
	if receipt.GetState() == groupv1.ReceiptState_RECEIPT_STATE_COMPLETE {
		got := m.record.GetDelivery().GetLength()
		if m.record.GetDelivery().GetSpec().GetDatagrams() != nil {
			got = receipt.GetBytes() // what was lost is not had
		}
		return rate(got, receipt.GetElapsed().AsDuration())
	}
	until := m.now
	if since := receipt.GetChangeTime(); since != nil { // a member that still receives has none
		until = since.AsTime()
	}
	got := max(receipt.GetBytes(), m.progress.nodes[placement.MemberID(name)].reported().GetBytes())
	return rate(got, until.Sub(m.progress.begun))
}

func (m measuring) links() (uses []*groupv1.LinkUse) {
	for way, carried := range m.progress.links {
		uses = append(uses, &groupv1.LinkUse{
			From: way.from.Name, To: way.to.Name, Bytes: carried.bytes,
			BytesPerSecond: rate(carried.bytes, carried.last.Sub(m.progress.begun)), Stripes: carried.stripes, Datagrams: carried.use,
		})
	}
	slices.SortFunc(uses, func(a, b *groupv1.LinkUse) int {
		return cmp.Or(cmp.Compare(a.GetFrom(), b.GetFrom()), cmp.Compare(a.GetTo(), b.GetTo()))
	})
	return uses
}

func (m measuring) caches() (uses []*groupv1.CacheUse) {
	sent, length := m.carried(), m.record.GetDelivery().GetLength()
	for id, node := range m.progress.nodes {
		if id.Role != identity.Agent {
			continue
		}
		use := &groupv1.CacheUse{Agent: id.Name, Bytes: node.report.GetCachedBytes(), MaxBytes: node.report.GetMaxCachedBytes()}
		use.Keeps = m.progress.sealed && node.report.GetBytes() >= length && node.report.GetHeldBytes() >= length
		if sent > 0 {
			use.Ratio = float64(use.GetMaxBytes()) / float64(sent)
		}
		uses = append(uses, use)
	}
	slices.SortFunc(uses, func(a, b *groupv1.CacheUse) int { return cmp.Compare(a.GetAgent(), b.GetAgent()) })
	return uses
}

// rate returns bytes per second; zero while no time has passed.
func rate(bytes uint64, over time.Duration) uint64 {
	if over <= 0 {
		return 0
	}
	return uint64(float64(bytes) / over.Seconds())
}

// stretch returns a member's time over the sender's, and at least 1.
func stretch(elapsed, sending time.Duration) float64 {
	if sending <= 0 || elapsed <= sending {
		return 1
	}
	return float64(elapsed) / float64(sending)
}
