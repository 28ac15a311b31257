package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// While the sender stands still, as when its process is stopped, it asks nobody: it gives up nobody for that. Who is silent after that is given
// up as ever.
func TestSenderThatStoodStillGivesUpNobody(t *testing.T) {
	const patience = 10 * time.Second
	shape, err := fast.ShapeOf(10*92_160, datagram)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	s, err := fast.NewSender(fast.Settings{Shape: shape, Ceiling: 1.25e9, Window: 1000, Patience: patience}, now)
	if err != nil {
		t.Fatal(err)
	}
	member := s.Join(now)
	step := func(span, by time.Duration) {
		for until := now.Add(span); now.Before(until); now = now.Add(by) {
			s.Next(now, 44)
		}
	}
	step(patience/2, 20*time.Millisecond)
	now = now.Add(10 * patience)
	if err := s.Report(member, wire.Reported{}, now); err != nil { // it had answered, which is read first
		t.Fatal(err)
	}
	step(patience/4, 20*time.Millisecond)
	if got := s.Member(member).Outcome; got != fast.Running {
		t.Errorf("after the sender stood still, the member is %v", got)
	}
	step(patience, 20*time.Millisecond)
	if got := s.Member(member).Outcome; got != fast.Unknown {
		t.Errorf("after it was silent for long, the member is %v", got)
	}
}
