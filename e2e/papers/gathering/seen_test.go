package gathering

import (
	"fmt"
	"math"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/sdk/gather"
)

// seen returns clients with these rates in bytes per half second, for 10 s.
func seen(rates ...uint64) *Seen {
	s := &Seen{}
	for i := range 21 {
		round := Round{At: float64(i) / 2}
		for j, rate := range rates {
			round.Clients = append(round.Clients, gather.ClientStatus{Name: fmt.Sprint("c", j), Received: uint64(i) * rate})
		}
		s.Rounds = append(s.Rounds, round)
	}
	return s
}

// Jain, Chiu and Hawe: (Σx)² / (n·Σx²), 1 if all have the same and k/n if k of n share all.
func TestFairness(t *testing.T) {
	for _, one := range []struct {
		rates []uint64
		want  float64
	}{{[]uint64{5, 5, 5}, 1}, {[]uint64{5, 0, 0}, 1. / 3}, {[]uint64{7, 7, 0, 0}, .5}, {[]uint64{1, 2, 3}, 36. / 42}, {[]uint64{0, 0}, 0}} {
		var names []string
		for i := range one.rates {
			names = append(names, fmt.Sprint("c", i))
		}
		if got := seen(one.rates...).Fairness(0, 10, names...); math.Abs(got-one.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", one.rates, got, one.want)
		}
	}
}

func TestDropsAndLossRate(t *testing.T) {
	s := &Seen{Took: 4e9}
	for i, dropped := range []float64{3, 3, 3, 5, 5} {
		s.Overflowed.Points = append(s.Overflowed.Points, measure.Point{X: float64(i), Y: dropped})
		s.Offered.Points = append(s.Offered.Points, measure.Point{X: float64(i), Y: 100 * float64(i)})
	}
	if before, during, after := s.Drops(0, 2), s.Drops(2, 3), s.Drops(3, 4); before != 0 || during != 2 || after != 0 {
		t.Errorf("%d, %d and %d dropped, want 0, 2 and 0", before, during, after)
	}
	if got := s.LossRate(1).Points; len(got) != 4 || got[2].Y != 2 || got[0].Y != 0 {
		t.Errorf("loss rate %v", got)
	}
}

func TestUsedIsWhenAllOfTheSpanIs(t *testing.T) {
	s := &Seen{}
	for i := range 41 {
		y := 40.
		if i > 20 {
			y = 100
		}
		s.Utilization.Points = append(s.Utilization.Points, measure.Point{X: float64(i) / 2, Y: y})
	}
	if got := s.Used(7, 20, 2, 96); got != 3 {
		t.Errorf("used after %v s, want 3", got)
	}
	if got := s.Used(7, 11, 2, 96); !math.IsInf(got, 1) {
		t.Errorf("used after %v s, though the time has ended", got)
	}
}
