package uplink

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

const (
	// shareBytes is about how much is reported in one message: managers accept 4 MiB.
	shareBytes = 1 << 20
	// reportBytes is the size up to which the report of one delivery says why its links have the stripes that they have.
	reportBytes = 2 << 20
)

// shares divides the reports of all deliveries among as many messages as they need: those of hundreds of deliveries to hundreds of
// children each do not fit into one. Managers take each delivery's report separately.
type shares struct {
	of   *Attendance
	left []*groupv1.DeliveryReport
}

// next returns what to tell in the next message.
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

// pause returns how long to wait before the next message, given the time between reports: between the shares of one
// report there is no wait.
func (s *shares) pause(every time.Duration) time.Duration {
	if len(s.left) > 0 {
		return 0
	}
	return every
}

// shorten makes a report fit into a message: it keeps children's names and offsets, of which tens of thousands fit.
func shorten(report *groupv1.DeliveryReport) {
	if proto.Size(report) <= reportBytes {
		return
	}
	for _, child := range report.GetChildren() {
		child.Stripes = nil
	}
}
