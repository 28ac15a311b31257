package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/services/gatherer/controller"
)

// slow is a plant with which each thing takes a while.
type slow struct{ review, observe, apply time.Duration }

func (s slow) Review() { time.Sleep(s.review) }

func (s slow) Observe() (window.Facts, time.Time) {
	time.Sleep(s.observe)
	return window.Facts{}, time.Now()
}

func (s slow) Apply(window.Facts, window.Decision) { time.Sleep(s.apply) }

// A round is said to take as long as all that is done in it, which includes showing it; and it begins half a second after the last
// one began, however long that took.
func TestRoundIsAllThatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control, err := controller.New(window.Default, window.Options{}, slow{3 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}, func() window.Rate { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var begun []time.Time
		ended := make(chan error)
		go func() {
			ended <- control.Run(ctx, func(round controller.Round) {
				begun = append(begun, round.At)
				time.Sleep(time.Millisecond)
			})
		}()
		time.Sleep(4*window.Interval - time.Millisecond)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		last, _ := control.Last()
		if want := 124 * time.Millisecond; last.Took != want {
			t.Errorf("a round took %v, want %v", last.Took, want)
		}
		if len(begun) != 3 || begun[2].Sub(begun[0]) != 2*window.Interval {
			t.Errorf("rounds began at %v, want one each %v", begun, window.Interval)
		}
	})
}
