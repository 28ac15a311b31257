package datagram_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
)

const fresh = 200 * time.Millisecond

func arrive(a *algo.Account, sequences ...uint64) {
	for _, sequence := range sequences {
		a.Arrived(sequence, 0, false)
	}
}

func wantCounts(t *testing.T, a *algo.Account, want algo.Counts) {
	t.Helper()
	if diff := cmp.Diff(want, a.Counts()); diff != "" {
		t.Error(diff)
	}
}

func TestLossAndOrderAreReported(t *testing.T) {
	a := algo.NewAccount(fresh, true)
	wantCounts(t, a, algo.Counts{})
	arrive(a, 5, 6, 8, 7, 7, 11)
	wantCounts(t, a, algo.Counts{Received: 5, Lost: 2, Duplicated: 1, Reordered: 1})
	// A sequence before the first moves the beginning.
	arrive(a, 4)
	wantCounts(t, a, algo.Counts{Received: 6, Lost: 2, Duplicated: 1, Reordered: 2})
	// What parity brings back was lost, not reordered.
	if !a.Arrived(9, fresh, true) {
		t.Error("a recovered datagram is not handed on")
	}
	wantCounts(t, a, algo.Counts{Received: 7, Recovered: 1, Lost: 1, Duplicated: 1, Reordered: 2})
	a.Ended(14)
	wantCounts(t, a, algo.Counts{Received: 7, Recovered: 1, Lost: 3, Duplicated: 1, Reordered: 2})
}

func TestStaleIsCountedAndNotHandedOn(t *testing.T) {
	a := algo.NewAccount(fresh, false)
	for sequence, c := range []struct {
		age    time.Duration
		handOn bool
	}{{fresh, true}, {fresh + 1, false}, {-time.Second, true}} {
		if got := a.Arrived(uint64(sequence), c.age, false); got != c.handOn {
			t.Errorf("aged %v: handed on: %v", c.age, got)
		}
	}
	wantCounts(t, a, algo.Counts{Received: 2, Late: 1})
	unbounded := algo.NewAccount(0, false)
	if !unbounded.Arrived(0, time.Hour, false) {
		t.Error("without a bound something is too old")
	}
}

// A member that was there from the start has lost whatever was sent before the first datagram that it got.
func TestStartCounts(t *testing.T) {
	a := algo.NewAccount(fresh, false)
	arrive(a, 3, 4)
	wantCounts(t, a, algo.Counts{Received: 2, Lost: 3})
}

func TestWhoGetsNothingHasLostAll(t *testing.T) {
	a := algo.NewAccount(fresh, true)
	a.Ended(10)
	wantCounts(t, a, algo.Counts{Lost: 10})
}

// Every datagram is in exactly one of received, late and lost, in whatever order they come.
func TestNothingIsHidden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrivals := rapid.SliceOfN(rapid.Uint64Range(100, 600), 1, 300).Draw(t, "arrivals")
		a := algo.NewAccount(fresh, true)
		came, first, last := map[uint64]bool{}, arrivals[0], arrivals[0]
		for _, sequence := range arrivals {
			a.Arrived(sequence, time.Duration(sequence%2)*time.Second, false)
			came[sequence], first, last = true, min(first, sequence), max(last, sequence)
		}
		got := a.Counts()
		if sum := got.Received + got.Late + got.Lost; sum != last-first+1 {
			t.Fatalf("%d of %d are accounted for: %+v", sum, last-first+1, got)
		}
		if got.Received+got.Late != uint64(len(came)) || got.Duplicated != uint64(len(arrivals)-len(came)) {
			t.Fatalf("%d came, %d of them different: %+v", len(arrivals), len(came), got)
		}
	})
}

// RFC 6479: numbers in the window are known exactly; older ones count as seen.
func TestSeen(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	var seen algo.Seen
	came, next := map[uint64]bool{}, uint64(0)
	for at := uint64(0); at < 100_000; at += random.Uint64N(3) {
		n := at - min(at, random.Uint64N(2*algo.SeenSpan))
		if random.IntN(500) == 0 {
			at += random.Uint64N(3 * algo.SeenSpan)
		}
		wantFirst := !came[n] && n+algo.SeenSpan >= next
		if got := seen.Note(n); got != wantFirst {
			t.Fatalf("%d with %d as the next: first: %v", n, next, got)
		}
		came[n], next = true, max(next, n+1)
		if !seen.Has(n) || seen.Next() != next {
			t.Fatalf("%d is forgotten, or the next is not %d", n, next)
		}
	}
}
