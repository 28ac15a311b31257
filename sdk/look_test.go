package sdk

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/uplink"
)

// large is a source that takes long to look at.
type large struct {
	supplier
	takes time.Duration
	found error
}

func (l large) usable() error {
	time.Sleep(l.takes)
	return l.found
}

// sealing is managers that note why deliveries were sealed.
type sealing struct {
	groupv1.DeliveryServiceClient
	reasons []string
}

func (s *sealing) SealDelivery(_ context.Context, request *groupv1.SealDeliveryRequest, _ ...grpc.CallOption) (*groupv1.SealDeliveryResponse, error) {
	s.reasons = append(s.reasons, request.GetReason())
	return new(groupv1.SealDeliveryResponse), nil
}

// An agent that is lost is dialled again at once, though its source may take minutes to look at. If that has changed, the delivery fails then.
func TestLookAtALargeSourceHoldsUpNobody(t *testing.T) {
	for _, source := range []large{{takes: time.Millisecond}, {takes: time.Millisecond, found: object.ErrChanged}, {takes: time.Minute}, {takes: time.Minute, found: object.ErrChanged}} {
		t.Run(fmt.Sprint(source.takes, source.found), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				managers := new(sealing)
				o := &Outgoing{session: &Session{client: &Client{deliveries: managers, uplink: new(uplink.Uplink)}}, id: "d"}
				isFast, begun := source.takes < lookTime, time.Now()
				if err := o.look(t.Context(), source); errors.Is(err, object.ErrChanged) != (isFast && source.found != nil) || time.Since(begun) > lookTime {
					t.Errorf("%v after %v", err, time.Since(begun))
				}
				if begun = time.Now(); !isFast && (o.look(t.Context(), source) != nil || time.Since(begun) > 0) {
					t.Errorf("another look began, and took %v", time.Since(begun))
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if failed := len(managers.reasons) == 1 && managers.reasons[0] == "source_changed"; failed != (!isFast && source.found != nil) {
					t.Errorf("the delivery ended with %q", managers.reasons)
				}
			})
		})
	}
}
