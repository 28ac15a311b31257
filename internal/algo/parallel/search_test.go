package parallel_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/parallel"
)

// seen returns a client with a target of 1 Mbit/s whose window would allow 4 Mbit/s.
func seen(throughput float64, rtt time.Duration) parallel.Seen {
	return parallel.Seen{Target: mbit, Throughput: throughput * mbit, Window: 4 * mbit * rtt.Seconds(), RTT: rtt}
}

// wantSearch steps through throughputs, given in Mbit/s, and checks the answer to each.
func wantSearch(t *testing.T, s *parallel.Search, rtt time.Duration, throughputs []float64, want []int) {
	t.Helper()
	for i, throughput := range throughputs {
		if got := s.Step(seen(throughput, rtt)); got != want[i] {
			t.Fatalf("%d connections after %.2f Mbit/s, want %d (of %v after %v)", got, throughput, want[i], want, throughputs)
		}
	}
}

// 003 §III-B, eq. 2: "T_e[Mbps] = W_n[KB]/RTT_n[ms]/8", with the 8 where the units need it: 12.5 KB
// over 100 ms give 1 Mbit/s.
func TestEstimatedThroughputIsWindowPerRoundTrip(t *testing.T) {
	if got := (parallel.Seen{Window: 12.5e3, RTT: 100 * time.Millisecond}).Estimated(); math.Abs(got-mbit) > 1e-6 {
		t.Errorf("%f", got)
	}
	if got := (parallel.Seen{Window: 1}).Estimated(); !math.IsInf(got, 1) {
		t.Errorf("%f without a round trip", got)
	}
}

// §III-B: "the proposed tuning is conducted when current throughput is lower than both of target
// throughput and the estimated throughput which is calculated with eq. (2) multiplied by safety
// coefficient ξ"; (I): "If it satisfies target throughput, […] N_n at that point is kept".
func TestNothingIsTunedThatMeetsItsTargetOrItsWindow(t *testing.T) {
	s := parallel.NewSearch(3)
	wantSearch(t, s, 100*time.Millisecond, []float64{1, 1.2, 1}, []int{3, 3, 3})
	// .8 Mbit/s is below the target, but not below .95 of the .84 that the window allows: .798.
	held := parallel.Seen{Target: mbit, Throughput: .8 * mbit, Window: .84 * mbit * .1, RTT: 100 * time.Millisecond}
	if got := s.Step(held); got != 3 {
		t.Errorf("%d connections where the window is what holds it", got)
	}
	held.Window = .85 * mbit * .1 // .95 of it is .8075
	if got := s.Step(held); got == 3 {
		t.Error("nothing is tuned where something else holds it")
	}
}

// (II) N = 4·.5 = 2; (III) α = max(1, [1/.6 · 100/100]) = 1 makes 3. (IV) .7 is more than .6: (VI),
// and α = 1 makes 4. (IV) .65 is less, and "in case of α = 1, throughput which was increasing up to
// now turned to decrease, N_b is determined": 3.
func TestSearchGoesBackFromWhereThroughputTurns(t *testing.T) {
	wantSearch(t, parallel.NewSearch(4), 100*time.Millisecond, []float64{.6, .7, .65}, []int{3, 4, 3})
}

// "if it satisfies target throughput, N_n is determined": at 3 it is met, and stays.
func TestSearchEndsAtTheTarget(t *testing.T) {
	wantSearch(t, parallel.NewSearch(4), 100*time.Millisecond, []float64{.6, 1.01, 1.0}, []int{3, 3, 3})
}

// Over 200 ms with a quarter of the target, α = [4·2] = 8: (II) 4·.5 = 2, (III) 10. (IV) .2 is less:
// (V) β = max(N_b/N_n, T_n/T_t) = max(2/10, .2) makes 2 of 10; (VI) α = [5·2] = 10 makes 12. (IV)
// .4 is more: α = [2.5·2] = 5 makes 17, of which 16 are allowed.
func TestSearchMultipliesWherePastTheOptimum(t *testing.T) {
	wantSearch(t, parallel.NewSearch(4), 200*time.Millisecond, []float64{.25, .2, .4}, []int{10, 12, 16})
}

// eq. 4 takes T_n/T_t where it is the larger one: (II) 8·.5 = 4, (III) [1/.5·2] = 4 makes 8; (IV) .45
// is less, β = max(4/8, .45) makes 4, and α = [1/.45·2] = 4 makes 8. With .9 before and .8 after:
// α = [1/.9·2] = 2 makes 6, β = max(4/6, .8) makes [4.8] = 4, and α = [1/.8·2] = 2 makes 6.
func TestSearchMultipliesByTheLargerShare(t *testing.T) {
	wantSearch(t, parallel.NewSearch(8), 200*time.Millisecond, []float64{.5, .45}, []int{8, 8})
	wantSearch(t, parallel.NewSearch(8), 200*time.Millisecond, []float64{.9, .8}, []int{6, 6})
}

// (IV) with α = 1 where throughput has never risen, and "no higher" counts as a decrease: (II) N = 2·.5 = 1, (III) α = 1 makes 2. .5 is
// less than .6: (V) β = max(1/2, .5) makes 1, (VI) α = [1/.5] = 2 makes 3. .6 is more: α = [1/.6] = 1 makes 4. (II) 4·.5 = 2, (III) 3. .6
// is no more than .6: (V) β = max(2/3, .6) makes 2, and α = 1 makes 3 again.
func TestSearchThatHasNotRisenGoesOn(t *testing.T) {
	wantSearch(t, parallel.NewSearch(2), 100*time.Millisecond, []float64{.6, .5, .6}, []int{2, 3, 4})
	wantSearch(t, parallel.NewSearch(4), 100*time.Millisecond, []float64{.6, .6}, []int{3, 3})
}

// Where nothing comes, α would be without end: there are as many connections as may be.
func TestSearchWithoutThroughput(t *testing.T) {
	wantSearch(t, parallel.NewSearch(2), 100*time.Millisecond, []float64{0}, []int{16})
}

// Whatever is seen, there is at least one connection, and no more than allowed.
func TestSearchStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := parallel.NewSearch(rapid.Int().Draw(t, "at first"))
		most := rapid.IntRange(0, 20).Draw(t, "most")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			got := s.Step(parallel.Seen{
				Target: rapid.Float64().Draw(t, "target"), Throughput: rapid.Float64().Draw(t, "throughput"), Window: rapid.Float64().Draw(t, "window"),
				RTT: time.Duration(rapid.Int64().Draw(t, "rtt")), Most: most,
			})
			if got < 1 || got > parallel.Most || most > 0 && got > most {
				t.Fatalf("%d connections of %d", got, most)
			}
		}
	})
}
