package uplink

import (
	"cmp"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/groupcast/groupcast/internal/daemon"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/simnet"
)

// follower is a manager that knows no leader until a time, and then answers, or hangs.
type follower struct {
	groupv1.UnimplementedManagerServiceServer
	until  time.Time
	answer error
	hangs  bool
	calls  int
}

func (f *follower) GetStatus(ctx context.Context, _ *groupv1.GetStatusRequest) (*groupv1.GetStatusResponse, error) {
	if f.calls++; time.Now().Before(f.until) {
		return nil, f.answer
	}
	if f.hangs {
		<-ctx.Done()
	}
	return new(groupv1.GetStatusResponse), nil
}

// serve has a manager answer at manager:7400, until it is stopped.
func serve(t *testing.T, network *simnet.Network, manager *follower) *grpc.Server {
	t.Helper()
	port, err := network.Host("manager").Listen(":7400")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	groupv1.RegisterManagerServiceServer(server, manager)
	go func() { _ = server.Serve(port) }()
	return server
}

func ask(t *testing.T, network *simnet.Network, calls time.Duration) *grpc.ClientConn {
	t.Helper()
	member := network.Host("member")
	connection, err := newTransports([]string{"manager:7400"}).dial(insecure.NewCredentials(), calls, []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return member.Dial(ctx, "tcp", address) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// A call is made again for as long as its time lasts, however long no manager leads, and then says why. One without a deadline ends sooner,
// one that is interrupted at once, and one that is refused for good is made once.
func TestCallsOutlastAnElection(t *testing.T) {
	leaderless := daemon.NewStatus(codes.Unavailable, "NO_LEADER", errSilent)
	for what, tt := range map[string]struct {
		answer                  error
		lasts                   time.Duration // for how long that is the answer
		calls                   time.Duration // for how long it is made again; zero is a manager's
		timeout, interrupted    time.Duration // of the call; zero is never
		want                    codes.Code
		hangs                   bool          // after that
		least, most             time.Duration // of the call
		leastCalls, mostOfCalls int
	}{
		"elected in time":    {answer: leaderless, lasts: 12 * time.Second, timeout: 20 * time.Second, want: codes.OK, least: 12 * time.Second, most: 16 * time.Second, leastCalls: 5, mostOfCalls: 12},
		"none is elected":    {answer: leaderless, lasts: time.Hour, timeout: 15 * time.Second, want: codes.Unavailable, least: 15 * time.Second, most: 15 * time.Second, leastCalls: 6, mostOfCalls: 14},
		"it hangs then":      {answer: leaderless, lasts: 5 * time.Second, hangs: true, timeout: 15 * time.Second, want: codes.Unavailable, least: 15 * time.Second, most: 15 * time.Second, leastCalls: 4, mostOfCalls: 8},
		"it hangs at once":   {hangs: true, timeout: 15 * time.Second, want: codes.DeadlineExceeded, least: 15 * time.Second, most: 15 * time.Second, leastCalls: 1, mostOfCalls: 1},
		"no deadline":        {answer: leaderless, lasts: time.Hour, want: codes.Unavailable, least: 5 * time.Second, most: 12 * time.Second, leastCalls: 4, mostOfCalls: 9},
		"a gatherer":         {answer: leaderless, lasts: time.Hour, calls: callBriefly, timeout: time.Hour, want: codes.Unavailable, least: 5 * time.Second, most: 12 * time.Second, leastCalls: 4, mostOfCalls: 9},
		"a deadline of days": {answer: leaderless, lasts: time.Hour, timeout: 48 * time.Hour, want: codes.Unavailable, least: callFor, most: callFor + 5*time.Second, leastCalls: 200, mostOfCalls: 600},
		"interrupted":        {answer: leaderless, lasts: time.Hour, timeout: time.Minute, interrupted: 7 * time.Second, want: codes.Canceled, least: 7 * time.Second, most: 7 * time.Second, leastCalls: 4, mostOfCalls: 8},
		"changes at once":    {answer: daemon.NewStatus(codes.Aborted, "CONTENTION", errSilent), lasts: 2 * time.Second, timeout: time.Minute, want: codes.OK, least: 2 * time.Second, most: 5 * time.Second, leastCalls: 2, mostOfCalls: 6},
		"changed meanwhile":  {answer: daemon.NewStatus(codes.Aborted, "ETAG_MISMATCH", errSilent), lasts: time.Hour, timeout: time.Minute, want: codes.Aborted, leastCalls: 1, mostOfCalls: 1},
		"refused":            {answer: daemon.NewStatus(codes.PermissionDenied, "DENIED", errSilent), lasts: time.Hour, timeout: time.Minute, want: codes.PermissionDenied, leastCalls: 1, mostOfCalls: 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network, manager := simnet.New(1), &follower{until: time.Now().Add(tt.lasts), answer: tt.answer, hangs: tt.hangs}
				server, connection := serve(t, network, manager), ask(t, network, cmp.Or(tt.calls, callFor))
				defer server.Stop()
				defer connection.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				if tt.interrupted > 0 {
					defer time.AfterFunc(tt.interrupted, cancel).Stop()
				}
				began := time.Now()
				_, err := groupv1.NewManagerServiceClient(connection).GetStatus(ctx, new(groupv1.GetStatusRequest))
				took := time.Since(began).Truncate(10 * time.Millisecond)
				if status.Code(err) != tt.want || took < tt.least || took > tt.most {
					t.Errorf("after %v: %v, want %v after %v to %v", took, err, tt.want, tt.least, tt.most)
				}
				if manager.calls < tt.leastCalls || manager.calls > tt.mostOfCalls {
					t.Errorf("%d calls, want %d to %d", manager.calls, tt.leastCalls, tt.mostOfCalls)
				}
			})
		})
	}
}

// Who called knows that a manager was asked, though it is gone, and nobody was reached since.
func TestWhoWasAskedStaysKnown(t *testing.T) {
	for _, isAsked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			network := simnet.New(1)
			connection := ask(t, network, callFor)
			defer connection.Close()
			if isAsked {
				server := serve(t, network, &follower{until: time.Now().Add(time.Hour), answer: daemon.NewStatus(codes.Unavailable, "NO_LEADER", errSilent)})
				defer time.AfterFunc(300*time.Millisecond, server.Stop).Stop()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			var asked peer.Peer
			_, err := groupv1.NewManagerServiceClient(connection).GetStatus(ctx, new(groupv1.GetStatusRequest), grpc.Peer(&asked))
			if status.Code(err) != codes.Unavailable || (asked.Addr != nil) != isAsked {
				t.Errorf("%v, and %v was asked, where one was: %t", err, asked.Addr, isAsked)
			}
		})
	}
}

// All streams of the API are opened again by gRPC, but a gatherer's session.
func TestStreamsAreOpenedAgain(t *testing.T) {
	opened := make(map[string]bool)
	for _, name := range streams() {
		opened[name.Service+"/"+name.Method] = true
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for k := range service.Methods().Len() {
				method := service.Methods().Get(k)
				name := string(service.FullName()) + "/" + string(method.Name())
				isOurs := service.FullName().Parent().Parent().Parent() == "groupcast"
				if want := isOurs && method.IsStreamingServer() && method.Name() != "Attach"; opened[name] != want {
					t.Errorf("%s is opened again: %t", name, opened[name])
				}
			}
		}
		return true
	})
}
