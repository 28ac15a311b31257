package sdk

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// unheard is a manager that begins a replication, but answers only when it is asked again.
type unheard struct {
	replicav1.ReplicationServiceClient
	address  net.Addr // of the manager; nil if it is not reached
	gone     error    // what is said in its place when it is lost as it begins; nil if nothing is said
	again    error    // what it answers when it is asked again, if that is an error
	asked    []*replicav1.CreateReplicationRequest
	canceled []string
}

func (u *unheard) CreateReplication(ctx context.Context, request *replicav1.CreateReplicationRequest, opts ...grpc.CallOption) (*replicav1.CreateReplicationResponse, error) {
	for _, opt := range opts {
		if told, is := opt.(grpc.PeerCallOption); is {
			told.PeerAddr.Addr = u.address
		}
	}
	if u.asked = append(u.asked, request); len(u.asked) == 1 && u.gone != nil {
		return nil, u.gone
	}
	if len(u.asked) == 1 || status.Code(u.again) == codes.DeadlineExceeded {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &replicav1.CreateReplicationResponse{Replication: &replicav1.Replication{Id: "begun"}}, u.again
}

func (u *unheard) CancelReplication(ctx context.Context, request *replicav1.CancelReplicationRequest, _ ...grpc.CallOption) (*replicav1.CancelReplicationResponse, error) {
	u.canceled = append(u.canceled, request.GetReplication())
	return new(replicav1.CancelReplicationResponse), ctx.Err()
}

// A replication that is given up while it begins does not go on without anybody knowing of it: it is canceled before Replicate returns, or the
// error says that it may go on. So it is where the manager that begins it is lost, and none takes its place in time. Where no manager was
// asked, none is asked then.
func TestWhatIsGivenUpIsNotReplicated(t *testing.T) {
	timeout := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	interrupt := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return ctx, cancel
	}
	noLeader := status.Error(codes.Unavailable, "none leads")
	for what, tt := range map[string]struct {
		end             func(context.Context) (context.Context, context.CancelFunc)
		manager         unheard
		asked, canceled int
		want            Code
		goesOn          bool
		took            time.Duration
	}{
		"interrupted":                 {end: interrupt, manager: unheard{address: new(net.TCPAddr)}, asked: 2, canceled: 1, want: Interrupted, took: time.Second},
		"out of time":                 {end: timeout, manager: unheard{address: new(net.TCPAddr)}, asked: 2, canceled: 1, want: TimedOut, took: time.Second},
		"no manager is reached":       {end: interrupt, asked: 1, want: Interrupted, took: time.Second},
		"refused":                     {end: interrupt, manager: unheard{address: new(net.TCPAddr), again: status.Error(codes.FailedPrecondition, "no")}, asked: 2, want: Interrupted, took: time.Second},
		"no manager leads":            {end: interrupt, manager: unheard{address: new(net.TCPAddr), again: noLeader}, asked: 2, want: Interrupted, goesOn: true, took: time.Second},
		"the manager still says none": {end: timeout, manager: unheard{address: new(net.TCPAddr), again: status.Error(codes.DeadlineExceeded, "")}, asked: 2, want: TimedOut, goesOn: true, took: time.Second + undoTimeout},
		"its manager is lost":         {end: timeout, manager: unheard{address: new(net.TCPAddr), gone: noLeader}, asked: 2, canceled: 1, want: Unavailable},
		"lost, and no other leads":    {end: timeout, manager: unheard{address: new(net.TCPAddr), gone: noLeader, again: noLeader}, asked: 2, want: Unavailable, goesOn: true},
		"nobody is there":             {end: timeout, manager: unheard{gone: noLeader}, asked: 1, want: Unavailable},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tt.end(t.Context())
				defer cancel()
				manager, began := tt.manager, time.Now()
				_, err := (&Client{replications: &manager}).Replicate(ctx, ReplicationSpec{})
				if CodeOf(err) != tt.want || errors.Is(err, ErrMayGoOn) != tt.goesOn || time.Since(began) != tt.took {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if len(manager.asked) != tt.asked || len(manager.canceled) != tt.canceled {
					t.Fatalf("asked %v, and to cancel %v; want %d and %d requests", manager.asked, manager.canceled, tt.asked, tt.canceled)
				}
				if tt.canceled > 0 && (manager.canceled[0] != "begun" || manager.asked[0].GetRequestId() != manager.asked[1].GetRequestId()) {
					t.Errorf("asked %v, and to cancel %v; want what that one request began canceled", manager.asked, manager.canceled)
				}
			})
		})
	}
}
