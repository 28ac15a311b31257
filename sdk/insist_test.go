package sdk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
)

// refusing is managers that refuse what they are told some times, each for another reason, and then take it.
type refusing struct {
	groupv1.DeliveryServiceClient
	refusals []error
}

func (r *refusing) next() error {
	if len(r.refusals) == 0 {
		return nil
	}
	err := r.refusals[0]
	r.refusals = r.refusals[1:]
	return err
}

func (r *refusing) RecordReceipt(context.Context, *groupv1.RecordReceiptRequest, ...grpc.CallOption) (*groupv1.RecordReceiptResponse, error) {
	return nil, r.next()
}

func (r *refusing) SealDelivery(context.Context, *groupv1.SealDeliveryRequest, ...grpc.CallOption) (*groupv1.SealDeliveryResponse, error) {
	return nil, r.next()
}

func refusal(t *testing.T, code codes.Code, reason string) error {
	t.Helper()
	s, err := status.New(code, "said").WithDetails(&errdetails.ErrorInfo{Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// Receipts and seals are told again while a store has no room, and while others change the same. What a manager refuses for good is not
// told again.
func TestReceiptsAndSealsOutlastWhatPasses(t *testing.T) {
	passing := []error{
		refusal(t, codes.ResourceExhausted, "STORE_FULL"), refusal(t, codes.Aborted, "CONTENTION"),
		refusal(t, codes.ResourceExhausted, "RATE_LIMITED"), refusal(t, codes.Unavailable, "NOT_LEADING"),
	}
	for _, tt := range []struct {
		refusals []error
		want     Code
		left     int
	}{
		{refusals: passing, want: OK},
		{refusals: []error{refusal(t, codes.InvalidArgument, "NOT_WHAT_WAS_SEALED"), nil}, want: InvalidArgument, left: 1},
		{refusals: []error{refusal(t, codes.FailedPrecondition, "SESSION_ENDED"), nil}, want: Conflict, left: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			managers := &refusing{refusals: tt.refusals}
			s := &Session{
				client:     &Client{uplink: new(uplink.Uplink), deliveries: managers},
				attendance: &attendance{recorded: make(map[string]bool)},
			}
			if err := s.record(t.Context(), "d", outcome{}); CodeOf(err) != tt.want || len(managers.refusals) != tt.left {
				t.Errorf("a receipt: %v, and %d were not asked for, want %v and %d", err, len(managers.refusals), tt.want, tt.left)
			}
			managers.refusals = tt.refusals
			out := &Outgoing{session: s, changed: make(chan struct{})}
			out.seal(t.Context(), new(groupv1.SealDeliveryRequest))
			if CodeOf(out.err) != tt.want || len(managers.refusals) != tt.left {
				t.Errorf("a seal: %v, and %d were not asked for, want %v and %d", out.err, len(managers.refusals), tt.want, tt.left)
			}
		})
	}
}

// What nobody receives is refused, but not if the program receives before a manager knows: it may have all by then.
func TestRefusalIsTakenBack(t *testing.T) {
	for _, receives := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			away := refusal(t, codes.Unavailable, "NO_LEADER")
			managers := &refusing{refusals: []error{away, away, away}}
			s := &Session{
				client:     &Client{uplink: new(uplink.Uplink), deliveries: managers},
				attendance: &attendance{recorded: make(map[string]bool)},
			}
			if receives {
				time.AfterFunc(3*recordPause/2, func() { s.attendance.claim() })
			}
			s.refuse(t.Context(), "d", "nobody receives", func() bool { return !s.attendance.isClaimed() })
			if told := s.attendance.recorded["d"]; told == receives {
				t.Errorf("the program receives: %t, and the managers have the refusal: %t", receives, told)
			}
		})
	}
}
