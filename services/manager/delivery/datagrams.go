package delivery

import (
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	datagram "github.com/groupcast/groupcast/internal/wire/datagram"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
)

// maxFresh bounds how old a datagram may be allowed to get: what may be older is not fresh.
const maxFresh = time.Minute

// checkDatagrams says what is wrong with how a stream wants to go in datagrams.
func checkDatagrams(problems *ledger.Checks, spec *groupv1.DeliverySpec) {
	asked := spec.GetDatagrams()
	if asked == nil {
		return
	}
	problems.That(spec.GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_STREAM, "spec.datagrams", "only a stream can go in datagrams")
	fresh := asked.GetFresh()
	problems.That(fresh == nil || fresh.CheckValid() == nil && fresh.AsDuration() >= 0 && fresh.AsDuration() <= maxFresh,
		"spec.datagrams.fresh", "is no span of time, or longer than %v", maxFresh)
	data, shards := asked.GetParityData(), asked.GetParityShards()
	problems.That((data == 0) == (shards == 0), "spec.datagrams.parity_shards", "is %d for %d datagrams: want none, or both", shards, data)
	problems.That(data <= datagram.MaxCount && shards <= datagram.MaxCount, "spec.datagrams.parity_data", "is more than %d, or its parity is", datagram.MaxCount)
}

// isDatagrams reports whether a delivery goes in datagrams: what is lost then stays lost, and no member has exactly what was sent.
func isDatagrams(delivery view.Delivery) bool {
	return delivery.GetDelivery().GetSpec().GetDatagrams() != nil
}

// cameBy returns how much has come to a node, by its report. Datagrams that came late count.
func (p *progress) cameBy(report *groupv1.DeliveryReport) uint64 {
	if p.datagrams {
		return report.GetBytes() + report.GetDatagrams().GetLate()
	}
	return p.extentOf(report)
}

func isHashed(delivery view.Delivery) bool { return delivery.GetDelivery().GetSpec().GetHashed() }
