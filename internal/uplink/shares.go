package uplink

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

const (
	// shareBytes is about how much is reported in a message: managers take 4 MiB.
	shareBytes = 1 << 20
	// reportBytes is how large the report of one delivery is at most that says why its links have the stripes that they have.
	reportBytes = 2 << 20
)

// shares are the reports of all deliveries, in as many messages as they need: of hundreds of deliveries to hundreds of children each they
// are more than one holds. Managers take each delivery's by itself.
type shares struct {
	of   *Attendance
	left []*groupv1.DeliveryReport
}

// next returns what is to be told in the next message.
func (s *shares) next() []*groupv1.DeliveryReport {
	if len(s.left) == 0 {
		s.left = s.of.reports()
	}
	size := 0
	beyond := slices.IndexFunc(s.left, func(report *groupv1.DeliveryReport) bool {
		shorten(report)
		size += proto.Size(report)
		return size > shareBytes
	})
	count := max(beyond, 1)
	if beyond < 0 {
		count = len(s.left)
	}
	share := s.left[:count:count]
	s.left = s.left[count:]
	return share
}

// pause returns for how long nothing is told, where that is so long between reports: nothing between the shares of one.
func (s *shares) pause(every time.Duration) time.Duration {
	if len(s.left) > 0 {
		return 0
	}
	return every
}

// shorten has a report fit a message. Children's names and offsets do, for tens of thousands.
func shorten(report *groupv1.DeliveryReport) {
	if proto.Size(report) <= reportBytes {
		return
	}
	for _, child := range report.GetChildren() {
		child.Stripes = nil
	}
}
