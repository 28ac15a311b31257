package sdk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

// Notes of deliveries do not grow with how many there have ever been.
func TestWhatIsNotedIsForgotten(t *testing.T) {
	noted := map[string]bool{"gone": true, "here": true, "other": true}
	assigned := []*groupv1.Assignment{{Delivery: "here"}, {Delivery: "other"}}
	forgetGone(noted, assigned)
	if len(noted) != 2 || !noted["here"] || !noted["other"] {
		t.Errorf("noted are %v, want those that are assigned", noted)
	}
}
