package sdk

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// losing is managers of which the one that begins a delivery is lost before it has answered.
type losing struct {
	groupv1.DeliveryServiceClient
	address  net.Addr // of the one that was lost; nil if none was reached
	asked    []string // the ids of the requests
	canceled []string
}

func (l *losing) CreateDelivery(_ context.Context, request *groupv1.CreateDeliveryRequest, opts ...grpc.CallOption) (*groupv1.CreateDeliveryResponse, error) {
	for _, opt := range opts {
		if told, is := opt.(grpc.PeerCallOption); is {
			told.PeerAddr.Addr = l.address
		}
	}
	if l.asked = append(l.asked, request.GetRequestId()); len(l.asked) == 1 {
		return nil, status.Error(codes.Unavailable, "no manager leads")
	}
	return &groupv1.CreateDeliveryResponse{Delivery: &groupv1.Delivery{Id: "begun"}}, nil
}

func (l *losing) CancelDelivery(_ context.Context, request *groupv1.CancelDeliveryRequest, _ ...grpc.CallOption) (*groupv1.CancelDeliveryResponse, error) {
	l.canceled = append(l.canceled, request.GetDelivery())
	return new(groupv1.CancelDeliveryResponse), nil
}

// What a manager may have begun that was lost before it answered is canceled: nobody would send it.
func TestDeliveryThatNobodySendsIsCanceled(t *testing.T) {
	for what, tt := range map[string]struct {
		address  net.Addr
		asked    int
		canceled []string
	}{
		"the manager is lost": {new(net.TCPAddr), 2, []string{"begun"}},
		"none was reached":    {nil, 1, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				managers, isDone := &losing{address: tt.address}, make(chan struct{})
				close(isDone) // there are no distances to wait for
				client := &Client{deliveries: managers}
				s := &Session{client: client, attendance: newAttendance(client), keeping: t.Context(), done: isDone}
				_, err := s.begin(t.Context(), &groupv1.DeliverySpec{Name: "f"})
				synctest.Wait()
				if CodeOf(err) != Unavailable || len(managers.asked) != tt.asked || !slices.Equal(managers.canceled, tt.canceled) {
					t.Errorf("%v, asked %d times, and canceled %v; want %d times and %v", err, len(managers.asked), managers.canceled, tt.asked, tt.canceled)
				}
				if len(slices.Compact(slices.Clone(managers.asked))) != 1 {
					t.Errorf("requests %v, want one that is repeated", managers.asked)
				}
			})
		})
	}
}
