package uplink

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

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

// gRPC may open a stream anew while nothing was answered, and holds up whoever sends
// meanwhile: the loop would not notice how long that takes.
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

// An agent that was stopped for long finds both: something to send, and answers to a
// stream that is over.
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
