package uplink

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// feeding returns a report of a delivery to so many children.
func feeding(delivery string, children int) *groupv1.DeliveryReport {
	report := &groupv1.DeliveryReport{Delivery: delivery}
	for i := range children {
		report.Children = append(report.Children, &groupv1.ChildReport{
			Name: fmt.Sprintf("receiver-of-a-deployment-%05d", i), SentBytes: 1 << 40, AckedOffset: 1 << 40,
			Stripes: &groupv1.Stripes{Count: 8, Reason: "gained", Why: strings.Repeat("y", 200)},
		})
	}
	return report
}

// Reports are told in messages of a size that managers accept, each delivery once, however many deliveries have however
// many children.
func TestReportsFitMessages(t *testing.T) {
	for name, reports := range map[string][]*groupv1.DeliveryReport{
		"none": nil, "one": {feeding("a", 10)}, "a large one": {feeding("a", 20_000), feeding("b", 1)},
		"many": func() (many []*groupv1.DeliveryReport) {
			for i := range 300 {
				many = append(many, feeding(fmt.Sprint(i), 150))
			}
			return many
		}(),
	} {
		told := shares{of: &Attendance{Reports: func() []*groupv1.DeliveryReport { return reports }}}
		seen := make(map[string]int)
		for begun := false; !begun || told.pause(time.Hour) == 0; begun = true {
			message := &groupv1.KeepSessionRequest{Reports: told.next()}
			if size := proto.Size(message); size > reportBytes {
				t.Errorf("%s: a message has %d bytes", name, size)
			}
			for _, report := range message.GetReports() {
				seen[report.GetDelivery()]++
			}
		}
		for _, report := range reports {
			if seen[report.GetDelivery()] != 1 {
				t.Errorf("%s: delivery %s is told %d times", name, report.GetDelivery(), seen[report.GetDelivery()])
			}
		}
	}
}

// refusing is a manager that refuses the second message for its size.
type refusing struct {
	sent, received int
	second         chan struct{}
}

func (r *refusing) Send(int) error {
	if r.sent++; r.sent == 2 {
		close(r.second)
	}
	return nil
}

func (r *refusing) Recv() (int, error) {
	if r.received++; r.received == 1 {
		return 1, nil
	}
	<-r.second
	return 0, status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5100000 vs. 4194304)")
}

// A report that is too large does not end the process: the next one may be smaller.
func TestReportThatIsTooLargeEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := exchange(ctx, &refusing{second: make(chan struct{})}, talk[int, int]{
			next: func() int { return 1 }, take: func(int) error { return nil }, every: func() time.Duration { return time.Second },
		})
		if !transient(err) || !strings.Contains(err.Error(), "larger than max") {
			t.Errorf("%v: is final", err)
		}
	})
}
