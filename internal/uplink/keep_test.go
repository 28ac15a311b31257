package uplink

import (
	"context"
	"errors"
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
