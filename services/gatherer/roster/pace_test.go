package roster_test

import (
	"math"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// A cap holds over any span of time, except for what may come at once; and all that it allows can be had.
func TestCapOfARate(t *testing.T) {
	const span = 20 * time.Second
	for _, rate := range []uint64{1, 1000, 60_000, 2_000_000, 1_000_000_000} {
		for _, among := range []int{1, 2, 64} {
			draw, begun, sum := roster.Pace(rate, among), time.Unix(1e9, 0), 0.
			for at := time.Duration(0); at <= span; at += 50 * time.Millisecond {
				for range among {
					sum += float64(draw(begun.Add(at), math.MaxInt64))
				}
			}
			exact := float64(rate) * span.Seconds()
			most := exact + max(16<<10, float64(rate)/4)
			if sum > most || sum < .99*exact {
				t.Errorf("%d bytes/s among %d: %.0f in %v, want %.0f to %.0f", rate, among, sum, span, exact, most)
			}
		}
	}
}

// Uploads of one client share its rate, also if one of them always asks first.
func TestUploadsShareACap(t *testing.T) {
	draw, sums, at := roster.Pace(1e6, 2), [2]uint64{}, time.Unix(1e9, 0)
	for range 200 {
		for i := range sums {
			sums[i] += draw(at, math.MaxInt64)
		}
		at = at.Add(50 * time.Millisecond)
	}
	if sums[0] > 3*sums[1] || sums[1] > 3*sums[0] {
		t.Errorf("one gets %d bytes, the other %d", sums[0], sums[1])
	}
}

// A clock that goes back gives nothing, and takes nothing away for long.
func TestCapWhenTheClockGoesBack(t *testing.T) {
	draw, at := roster.Pace(1e6, 1), time.Unix(1e9, 0)
	draw(at, math.MaxInt64)
	if got := draw(at.Add(-time.Hour), math.MaxInt64); got != 0 {
		t.Errorf("%d bytes for an hour back", got)
	}
	if got := draw(at.Add(-time.Hour+time.Second), math.MaxInt64); got == 0 {
		t.Error("nothing a second later")
	}
}

// What a capped client's upload is asked for follows the policy as it changes: little while the cap holds, and as much as ever once it is
// lifted.
func TestCapFollowsThePolicy(t *testing.T) {
	f := start(t, policy.Policy{Default: policy.Share{Max: 1000}}, nil)
	opened := f.open(f.attach("alice"), file("f", 64<<20))
	if credit := opened.Upload.Answer().Credit; credit > 20_000 {
		t.Errorf("it is asked for %d bytes at once, of 1000 a second", credit)
	}
	_, err := f.policy.Set(policy.Policy{}, 0)
	f.must(err)
	f.Review()
	for answer := opened.Upload.Answer(); answer.Credit < 100<<10; answer = opened.Upload.Answer() {
		select {
		case <-answer.Changed:
		case <-time.After(time.Minute):
			t.Fatalf("without a cap it is asked for %d bytes alone", answer.Credit)
		}
	}
}

// A client that is asked for no more than its part of the link has no more under way than comes in a quarter of a second. Once windows
// are small enough for it again, it is asked as before.
func TestPartOfTheLinkIsAskedFor(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	opened := f.open(f.attach("alice"), file("f", 64<<20))
	decide := func(part window.Rate) {
		facts := window.Facts{Clients: []window.Client{{Name: "alice"}}}
		f.Apply(facts, window.Decision{Shares: []window.Share{{Name: "alice", Pace: part}}})
	}
	credit := func() uint64 { return opened.Upload.Answer().Credit }
	before := credit()
	decide(100e3)
	f.must(opened.Upload.Came(make([]byte, before)))
	f.await("more is asked for", func() bool { return credit() > before })
	if more := credit() - before; more > 25_000 {
		t.Errorf("it is asked for %d bytes at once, of 100,000 a second", more)
	}
	decide(0)
	f.await("it is asked as before", func() bool { return credit() >= before+100<<10 })
}

// Nobody is asked for more than the link is said to carry before it is known what brings how much.
func TestStatedLinkIsKeptFromTheFirstByte(t *testing.T) {
	f := start(t, policy.Policy{Link: 100e3}, nil)
	opened := f.open(f.attach("alice"), file("f", 64<<20))
	first := opened.Upload.Answer().Credit
	if first > 25_000 {
		t.Errorf("it is asked for %d bytes at once, over 100,000 a second", first)
	}
	f.must(opened.Upload.Came(make([]byte, first)))
	if more := opened.Upload.Answer().Credit - first; more > 25_000 {
		t.Errorf("it is asked for %d bytes more at once", more)
	}
}
