package window_test

import (
	"math"
	"testing"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// Jain, Chiu and Hawe: (Σx)² / (n·Σx²), 1 if all have the same and k/n if k of n share all.
func TestFairness(t *testing.T) {
	for _, one := range []struct {
		shares []float64
		want   float64
	}{
		{[]float64{5, 5, 5}, 1},
		{[]float64{5, 0, 0}, 1. / 3},
		{[]float64{7, 7, 0, 0}, .5},
		{[]float64{1, 2, 3}, 36. / 42},
		{[]float64{0, 0}, 0},
		{nil, 0},
	} {
		if got := window.Fairness(one.shares); math.Abs(got-one.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", one.shares, got, one.want)
		}
	}
}
