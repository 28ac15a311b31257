package uplink

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/daemon"
)

// A message that is too large will be so each time: the watcher is told, and does not ask for ever. A manager without
// room may have room again.
func TestWhatIsTooLargeIsNotAskedForAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"sent, and too large":    {status.Error(codes.ResourceExhausted, "grpc: trying to send message larger than max (5100000 vs. 4194304)"), false},
		"come, and too large":    {status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5100000 vs. 4194304)"), false},
		"a store without room":   {daemon.NewStatus(codes.ResourceExhausted, "STORE_FULL", errSilent), true},
		"a manager that is busy": {status.Error(codes.Unavailable, "busy"), true},
	} {
		if got := transient(tt.err); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// deaf is a stream to a manager that never answers.
type deaf struct {
	ctx  context.Context
	sent int
}

func (d *deaf) Send(int) error {
	d.sent++
	return nil
}

func (d *deaf) Recv() (int, error) {
	<-d.ctx.Done()
	return 0, d.ctx.Err()
}

// gRPC may open a stream anew while there is no answer yet, and blocks those that send meanwhile:
// the loop would not notice how long that takes.
func TestNothingMoreIsSentBeforeTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := &deaf{ctx: ctx}
		begun := time.Now()
		err := exchange(ctx, stream, talk[int, int]{
			next: func() int { return 1 }, take: func(int) error { return nil }, every: func() time.Duration { return time.Second },
		})
		if !errors.Is(err, errSilent) || time.Since(begun) != patience || stream.sent != 1 {
			t.Errorf("%v after %v, %d messages sent; want it silent after %v and one message", err, time.Since(begun), stream.sent, patience)
		}
	})
}

// ending is a stream that ends while its last answers are still unread.
type ending struct{ sent, received int }

func (e *ending) Send(int) error {
	if e.sent++; e.sent > 1 {
		return io.EOF
	}
	return nil
}

func (e *ending) Recv() (int, error) {
	if e.received++; e.received > 3 {
		return 0, errEnding
	}
	return e.received, nil
}

var errEnding = errors.New("ending")

// An agent that was stopped for long finds something to send and, at the same time, answers of a stream that has ended.
func TestStreamThatEndsWithUnreadAnswersIsLeft(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var taken []int
			due := make(chan struct{})
			close(due)
			err := exchange(ctx, new(ending), talk[int, int]{
				next: func() int { return 1 }, every: func() time.Duration { return time.Second }, wake: due,
				take: func(answer int) error { taken = append(taken, answer); return nil },
			})
			if !errors.Is(err, errEnding) || len(taken) != 3 {
				t.Errorf("%v after answers %v, want all three and the end", err, taken)
			}
		})
	}
}

// talkative is a manager that reads each message but the first only after the node has taken a hundred more answers.
type talkative struct {
	ctx      context.Context
	received chan int
	sent     int
}

func (m *talkative) Send(int) error {
	if m.sent++; m.sent == 1 {
		return nil
	}
	for range 100 {
		select {
		case <-m.received:
		case <-m.ctx.Done():
			return io.EOF
		}
	}
	return nil
}

func (m *talkative) Recv() (int, error) {
	select {
	case m.received <- 1:
	case <-time.After(time.Millisecond): // nothing is being sent now
	case <-m.ctx.Done():
		return 0, m.ctx.Err()
	}
	return 1, nil
}

// A manager that is held up by what it has to tell does not read meanwhile: its answers are taken while something is being sent.
func TestAnswersAreTakenWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, taken := &talkative{ctx: ctx, received: make(chan int)}, 0
		err := exchange(ctx, stream, talk[int, int]{
			next: func() int { return 1 }, every: func() time.Duration { return time.Second },
			take: func(int) error {
				if taken++; taken == 1000 {
					return errEnding
				}
				return nil
			},
		})
		if !errors.Is(err, errEnding) {
			t.Errorf("%v after %d answers, want all of them", err, taken)
		}
	})
}

// stuck is a manager that answers once, and reads nothing more.
type stuck struct {
	ctx            context.Context
	sent, received int
}

func (s *stuck) Send(int) error {
	if s.sent++; s.sent > 1 {
		<-s.ctx.Done()
		return io.EOF
	}
	return nil
}

func (s *stuck) Recv() (int, error) {
	if s.received++; s.received > 1 {
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	return 1, nil
}

// The silence of a manager is noticed even if it does not read what is sent.
func TestSilenceIsNoticedWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := exchange(ctx, &stuck{ctx: ctx}, talk[int, int]{
			next: func() int { return 1 }, take: func(int) error { return nil }, every: func() time.Duration { return 0 },
		})
		if !errors.Is(err, errSilent) {
			t.Errorf("%v, want that it is silent", err)
		}
	})
}
