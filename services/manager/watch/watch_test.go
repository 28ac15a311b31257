package watch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/watch"
)

// thing is something that changes; a negative number has ended.
type thing struct {
	now     int
	changed chan struct{}
	ended   chan struct{}
	begun   time.Time
	sent    []string
	broken  error
}

func newThing() *thing {
	return &thing{now: 1, changed: make(chan struct{}), ended: make(chan struct{}), begun: time.Now()}
}

// set changes it. Everything is in one bubble, and changes only while the watch waits.
func (s *thing) set(now int) {
	s.now = now
	close(s.changed)
	s.changed = make(chan struct{})
	synctest.Wait()
}

func (s *thing) watch(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	w := watch.Watched[int]{
		Changed: func() <-chan struct{} { return s.changed },
		Show:    func() (int, bool, error) { return s.now, s.now > 0, s.broken },
		Running: func() (bool, error) { return s.now > 0, s.broken },
		Ended:   s.ended,
		Send: func(now int) error {
			s.sent = append(s.sent, fmt.Sprintf("%v:%d", time.Since(s.begun), now))
			return nil
		},
	}
	go func() { done <- w.Run(ctx) }()
	synctest.Wait()
	return done
}

func (s *thing) want(t *testing.T, want ...string) {
	t.Helper()
	if fmt.Sprint(s.sent) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", s.sent, want)
	}
}

func pass(d time.Duration) {
	time.Sleep(d) // of the bubble's own clock
	synctest.Wait()
}

// It is sent as it is, then as it changes, changes of 200 ms together; its end at once.
func TestChangesAreCollectedAndTheEndIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newThing()
		done := s.watch(t.Context())
		pass(time.Millisecond)
		s.set(2)
		pass(time.Millisecond)
		s.set(3)
		s.want(t, "0s:1")
		pass(time.Second)
		s.want(t, "0s:1", "200ms:3")
		s.set(4)
		pass(time.Millisecond)
		s.set(-5)
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.want(t, "0s:1", "200ms:3", "1.002s:4", "1.003s:-5")
	})
}

// A thing of which there is nothing new still sends a heartbeat every 5 s.
func TestSilenceHasHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newThing()
		ctx, cancel := context.WithCancel(t.Context())
		done := s.watch(ctx)
		pass(11 * time.Second)
		s.want(t, "0s:1", "5s:0", "10s:0")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A watch that can no longer know of changes ends and says so: it leaves nobody waiting.
func TestWatchEndsWithTheTerm(t *testing.T) {
	for name, change := range map[string]func(*thing){"while nothing changes": func(*thing) {}, "while changes are collected": func(s *thing) { s.set(2) }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newThing()
				done := s.watch(t.Context())
				change(s)
				close(s.ended)
				if err := <-done; !errors.Is(err, ledger.ErrNotLeading) {
					t.Error(err)
				}
				s.want(t, "0s:1")
			})
		})
	}
}

// A thing whose changes are not told is looked at once in 200 ms, not all the time.
func TestUntoldChangesAreLookedAtNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newThing()
		close(s.changed)
		ctx, cancel := context.WithCancel(t.Context())
		done := s.watch(ctx)
		pass(500 * time.Millisecond)
		s.want(t, "0s:1", "200ms:1", "400ms:1")
		s.broken = errors.New("gone")
		pass(time.Second)
		if err := <-done; !errors.Is(err, s.broken) {
			t.Error(err)
		}
		cancel()
	})
}
