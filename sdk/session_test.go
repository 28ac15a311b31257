package sdk

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// A session that expires is no longer kept a moment before it is known how it ended. Whoever receives learns all the same that it expired,
// and can join again.
func TestReceiversLearnHowTheSessionEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeping, stop := context.WithCancel(t.Context())
		s := &Session{
			keeping: keeping, stop: stop, done: make(chan struct{}), member: Member{Roles: []Role{Receive}},
			attendance: &attendance{changed: make(chan struct{}), current: make(map[string]*groupv1.Assignment)},
		}
		go func() {
			stop()
			<-time.After(time.Second)
			s.err = &SessionEnded{State: "expired"}
			close(s.done)
		}()
		nowhere := func(Incoming) (StreamWriter, error) { return nil, errors.New("nothing comes") }
		for _, err := range s.Receive(t.Context(), ReceiveOptions{Stream: nowhere}) {
			var ended *SessionEnded
			if !errors.As(err, &ended) || ended.State != "expired" {
				t.Errorf("received %v, want that the session expired", err)
			}
		}
	})
}

// givenUp is a manager that carries out a join, but answers it only when it is asked again.
type givenUp struct {
	groupv1.SessionServiceClient
	address net.Addr // of the manager; nil if it is not reached
	asked   []*groupv1.JoinRequest
	left    []*groupv1.LeaveRequest
}

func (g *givenUp) Join(ctx context.Context, request *groupv1.JoinRequest, opts ...grpc.CallOption) (*groupv1.JoinResponse, error) {
	for _, opt := range opts {
		if told, is := opt.(grpc.PeerCallOption); is {
			told.PeerAddr.Addr = g.address
		}
	}
	if g.asked = append(g.asked, request); len(g.asked) == 1 {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &groupv1.JoinResponse{Member: &groupv1.Member{Group: request.GetGroup(), Name: request.GetName(), Incarnation: 7}}, nil
}

func (g *givenUp) Leave(ctx context.Context, request *groupv1.LeaveRequest, _ ...grpc.CallOption) (*groupv1.LeaveResponse, error) {
	g.left = append(g.left, request)
	return new(groupv1.LeaveResponse), ctx.Err()
}

// A join that is interrupted leaves the session that the manager may have begun: others would wait for that member until it expires. Where no
// manager was asked, none is asked then.
func TestAnInterruptedJoinLeavesNoSession(t *testing.T) {
	for _, tt := range []struct {
		address     net.Addr
		asked, left int
	}{
		{address: new(net.TCPAddr), asked: 2, left: 1},
		{address: nil, asked: 1, left: 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			manager := &givenUp{address: tt.address}
			ctx, interrupt := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, interrupt)
			_, err := (&Client{sessions: manager}).Join(ctx, Join{Group: "g", Name: "a"})
			if CodeOf(err) != Interrupted {
				t.Errorf("the join ended with %v, want that it was interrupted", err)
			}
			if len(manager.asked) != tt.asked || len(manager.left) != tt.left {
				t.Fatalf("asked to join %v, and to leave %v; want %d and %d requests", manager.asked, manager.left, tt.asked, tt.left)
			}
			if tt.left > 0 && (manager.left[0].GetIncarnation() != 7 || manager.asked[0].GetRequestId() != manager.asked[1].GetRequestId()) {
				t.Errorf("asked to join %v, and to leave %v; want the session of that one request left", manager.asked, manager.left)
			}
		})
	}
}

// Notes of deliveries do not grow with how many there have ever been.
func TestWhatIsNotedIsForgotten(t *testing.T) {
	noted := map[string]bool{"gone": true, "here": true, "other": true}
	assigned := []*groupv1.Assignment{{Delivery: "here"}, {Delivery: "other"}}
	forgetGone(noted, assigned)
	if len(noted) != 2 || !noted["here"] || !noted["other"] {
		t.Errorf("noted are %v, want those that are assigned", noted)
	}
}
