package paper003

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk/gather"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit))
}

// "Preferentially ensures target QoS for high priority clients" (003, abstract), controlled by the
// receiver alone. On a real kernel windows hold: the queue is a fraction of what TCP makes of it,
// and a client with twice the target of another gets more than that one, however much farther away
// it is.
func TestWindowsKeepTheQueueShortAndFollowTargets(t *testing.T) {
	labtest.Require(t)
	const from, until = 5.0, 14.0
	var cases []gathering.Case
	for _, name := range []string{window.Groupcast, window.Traditional} {
		c := amid(name, "cubic", 1, 0)
		c.Terminals, c.Access.Rate = terminals([]gather.Share{low, high}, 10*time.Millisecond, 40*time.Millisecond), 4*link.Mbit
		cases = append(cases, c)
	}
	all, err := gathering.Beside(context.Background(), cases, func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		return s.Until(time.Duration(until * float64(time.Second)))
	})
	if err != nil {
		t.Fatal(err)
	}
	ours, plain := all[0], all[1]
	for _, s := range all {
		t.Logf("%s: near and low %.2f, far and high %.2f Mbit/s, queue %.0f bytes", s.Controller,
			s.Rate("t0", from, until), s.Rate("t1", from, until), s.Queue.Between(from, until).Mean())
	}
	if got, without := ours.Queue.Between(from, until).Mean(), plain.Queue.Between(from, until).Mean(); got > .5*without {
		t.Errorf("the queue is %.0f bytes with the controller, %.0f without: want less than half", got, without)
	}
	if low, high := ours.Rate("t0", from, until), ours.Rate("t1", from, until); high < 1.2*low {
		t.Errorf("twice the target, farther away: %.2f Mbit/s, and %.2f with the half", high, low)
	}
}
