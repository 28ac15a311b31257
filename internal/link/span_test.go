package link

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Spans are the same as a set of single bytes, whatever runs are added in whatever order.
func TestSpansAreASet(t *testing.T) {
	const most = 64
	rapid.Check(t, func(t *rapid.T) {
		var runs spans
		var set [most]bool
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			from := rapid.Uint64Range(0, most-1).Draw(t, "from")
			if rapid.IntRange(0, 3).Draw(t, "step") == 0 {
				runs = runs.after(from)
				clear(set[:from])
				continue
			}
			to := rapid.Uint64Range(from+1, most).Draw(t, "to")
			runs = runs.add(span{from, to})
			for i := from; i < to; i++ {
				set[i] = true
			}
		}
		var got [most]bool
		for i, run := range runs {
			if i > 0 && runs[i-1].to >= run.from {
				t.Fatalf("%v touch each other", runs)
			}
			for i := run.from; i < run.to; i++ {
				got[i] = true
			}
		}
		if got != set {
			t.Fatalf("%v are not %v", runs, set)
		}
		for at := range uint64(most) {
			var want span
			isWanted := false
			for _, run := range slices.Backward(runs) {
				if at < run.to {
					want, isWanted = run, true
				}
			}
			if run, found := runs.next(at); run != want || found != isWanted {
				t.Fatalf("of %v the next at %d is %v (%t), want %v", runs, at, run, found, want)
			}
		}
	})
}
