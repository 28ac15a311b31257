package gather

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/sdk"
)

// crowded is a gatherer that refuses a client some times, for a reason.
type crowded struct {
	gatherv1.GatherServiceClient
	reason  string
	refuses int
}

func (c *crowded) Attach(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse], error) {
	if c.refuses--; c.refuses >= 0 {
		refusal, err := status.New(codes.ResourceExhausted, "no").WithDetails(&errdetails.ErrorInfo{Reason: c.reason})
		if err != nil {
			return nil, err
		}
		return nil, refusal.Err()
	}
	return attach(ctx), nil
}

// attached is a session that was begun, which ends when its client leaves.
type attached struct {
	grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse]
	ctx  context.Context
	name string
	told bool
	left chan struct{}
	end  func()
}

func attach(ctx context.Context) *attached {
	left := make(chan struct{})
	return &attached{ctx: ctx, name: "s", left: left, end: sync.OnceFunc(func() { close(left) })}
}

func (a *attached) Send(*gatherv1.AttachRequest) error { return nil }

func (a *attached) CloseSend() error {
	a.end()
	return nil
}

func (a *attached) Recv() (*gatherv1.AttachResponse, error) {
	if !a.told {
		a.told = true
		return &gatherv1.AttachResponse{Session: a.name, Interval: durationpb.New(firstPause)}, nil
	}
	select {
	case <-a.ctx.Done():
		return nil, a.ctx.Err()
	case <-a.left:
		return nil, io.EOF
	}
}

// A client that is closed tells its gatherer that it leaves, and does not just cut the connection. If the gatherer does not answer, it
// waits for a moment.
func TestClientTakesLeave(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			gatherer := &parting{answers: answers}
			c := &Client{gatherer: "g", rpc: gatherer, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{})}
			c.life, c.end = context.WithCancel(t.Context())
			if _, err := c.awaitSession(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			begun := time.Now()
			c.end()
			c.attached.Wait()
			if took := time.Since(begun); !gatherer.left || answers != (took == 0) || took > leaveTime {
				t.Errorf("a gatherer that answers (%t): it was told: %t, in %v", answers, gatherer.left, took)
			}
		})
	}
}

// parting is a gatherer that is told when its client leaves, and may say nothing to that.
type parting struct {
	gatherv1.GatherServiceClient
	answers, left bool
}

func (p *parting) Attach(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse], error) {
	return &leaving{attach(ctx), p}, nil
}

type leaving struct {
	*attached
	of *parting
}

func (l *leaving) CloseSend() error {
	if l.of.left = true; l.of.answers {
		return l.attached.CloseSend()
	}
	return nil
}

// A gatherer that has too many clients has room later, so the client tries again. If its minimum does not fit, that would not help.
func TestCrowdedGathererIsAskedAgain(t *testing.T) {
	for reason, want := range map[string]string{"TOO_MANY": "s", "MINIMUM_DOES_NOT_FIT": ""} {
		synctest.Test(t, func(t *testing.T) {
			c := &Client{
				gatherer: "g", rpc: &crowded{reason: reason, refuses: 5}, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{}),
			}
			c.life, c.end = context.WithCancel(t.Context())
			defer c.attached.Wait()
			defer c.end()
			c.attach()
			synctest.Wait() // it has been refused once
			refused, _ := c.progress()
			session, err := c.awaitSession(t.Context(), "")
			if session != want || (sdk.CodeOf(err) == sdk.NoRoom) != (want == "") {
				t.Errorf("%s: session %q (%v), want %q", reason, session, err, want)
			}
			synctest.Wait()
			if p, _ := c.progress(); refused.DetachedReason != reason || want != "" && p.DetachedReason != "" {
				t.Errorf("%s: it is shown as refused for %q, and attached for %q", reason, refused.DetachedReason, p.DetachedReason)
			}
		})
	}
}

// elsewhere is a gatherer that cannot be reached at the address that is dialled.
type elsewhere struct {
	gatherv1.GatherServiceClient
	moved bool
}

func (e *elsewhere) Attach(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse], error) {
	if !e.moved {
		return nil, status.Error(codes.Unavailable, "connection refused")
	}
	return attach(ctx), nil
}

// If a gatherer is not reached where it was, the managers are asked where it is until they know, but not all the time: others ask them,
// too.
func TestGathererThatWasMovedIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gatherer, asked, begun := new(elsewhere), 0, time.Now()
		c := &Client{
			gatherer: "g", rpc: gatherer, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{}),
			find: func(context.Context) error {
				if asked++; asked < 3 {
					return status.Error(codes.Unavailable, "no manager answers")
				}
				gatherer.moved = true
				return nil
			},
		}
		c.life, c.end = context.WithCancel(t.Context())
		defer c.attached.Wait()
		defer c.end()
		if session, err := c.awaitSession(t.Context(), ""); session != "s" || err != nil {
			t.Errorf("session %q: %v", session, err)
		}
		if took := time.Since(begun); asked != 3 || took < 3*movedPatience || took > 3*(movedPatience+2*longPause) {
			t.Errorf("the managers were asked %d times in %v", asked, took)
		}
	})
}

// restarted is a gatherer that is started anew when it is first asked what is there, is busy the second time, and answers the third.
type restarted struct {
	gatherv1.GatherServiceClient
	now      *attached
	goesOn   bool     // it was not, and says so of a session that goes on
	sessions []string // that it was asked in
}

func (r *restarted) Attach(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse], error) {
	r.now = attach(ctx)
	r.now.name = fmt.Sprint("s", len(r.sessions))
	return r.now, nil
}

func (r *restarted) FindFiles(_ context.Context, request *gatherv1.FindFilesRequest, _ ...grpc.CallOption) (*gatherv1.FindFilesResponse, error) {
	r.sessions = append(r.sessions, request.GetSession())
	switch len(r.sessions) {
	case 1:
		if !r.goesOn {
			r.now.end()
		}
		ended, err := status.New(codes.FailedPrecondition, "the session has ended").WithDetails(&errdetails.ErrorInfo{Reason: "SESSION_ENDED"})
		if err != nil {
			return nil, err
		}
		return nil, ended.Err()
	case 2:
		return nil, status.Error(codes.DeadlineExceeded, "it reads for others")
	}
	return &gatherv1.FindFilesResponse{}, nil
}

// A gatherer that was started anew meanwhile, or was busy, is asked again what is there: the end of a tree, its empty directories, needs
// the answer. So is one that says that the session has ended, and then goes on with it.
func TestWhatIsThereIsAskedAgain(t *testing.T) {
	t.Run("another session", func(t *testing.T) { wantAskedAgain(t, false, "s0", "s1", "s1") })
	t.Run("the same session", func(t *testing.T) { wantAskedAgain(t, true, "s0", "s0", "s0") })
}

func wantAskedAgain(t *testing.T, goesOn bool, sessions ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		gatherer := &restarted{goesOn: goesOn}
		c := &Client{gatherer: "g", rpc: gatherer, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{})}
		c.life, c.end = context.WithCancel(t.Context())
		defer c.attached.Wait()
		defer c.end()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		tree := &tree{client: c}
		if _, err := tree.find(ctx, nil); err != nil || !slices.Equal(gatherer.sessions, sessions) {
			t.Errorf("%v, asked in %v", err, gatherer.sessions)
		}
	})
}

// renewed is a gatherer whose sessions end after a while, and that is away after three of them.
type renewed struct {
	gatherv1.GatherServiceClient
	lasts    time.Duration
	sessions int
}

func (r *renewed) Attach(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse], error) {
	if r.sessions == 3 {
		return nil, status.Error(codes.Unavailable, "connection refused")
	}
	r.sessions++
	session := attach(ctx)
	time.AfterFunc(r.lasts, session.end)
	return session, nil
}

// Which address answered counts for a session: an address that was slow once is tried first again in the next.
func TestAddressesAreTriedAnewInEachSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{gatherer: "g", rpc: &renewed{lasts: 30 * time.Minute}, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{})}
		c.life, c.end = context.WithCancel(t.Context())
		defer c.attached.Wait()
		defer c.end()
		c.attach()
		synctest.Wait()
		c.reach("b")
		for _, want := range []string{"b", "a"} {
			if first := c.reachedFirst([]string{"a", "b"})[0]; first != want {
				t.Errorf("after %d sessions %s is dialled first, want %s", c.rpc.(*renewed).sessions, first, want)
			}
			time.Sleep(31 * time.Minute)
		}
	})
}

// A session that ends, as each does now and then, is no reason to be told, as the next begins at once. If it does not, the reason is, and
// so is why sessions do not last, from the second one in a row.
func TestRenewedSessionIsNotTold(t *testing.T) {
	for lasts, want := range map[time.Duration]struct {
		after time.Duration
		why   string
	}{30 * time.Minute: {90 * time.Minute, "connection refused"}, time.Second: {2 * time.Second, "EOF"}} {
		synctest.Test(t, func(t *testing.T) {
			c := &Client{gatherer: "g", rpc: &renewed{lasts: lasts}, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{})}
			c.life, c.end = context.WithCancel(t.Context())
			defer c.attached.Wait()
			defer c.end()
			begun := time.Now()
			c.attach()
			for {
				now, _ := c.standing()
				if now.detached != "" {
					if passed := time.Since(begun); passed < want.after || passed > want.after+900*time.Millisecond || !strings.Contains(now.detached, want.why) {
						t.Errorf("sessions of %v: after %v it is told %q", lasts, passed, now.detached)
					}
					return
				}
				<-now.changed
			}
		})
	}
}
