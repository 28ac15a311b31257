package moment_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
)

// Among times until which to wait, zero means never; among times since when something is so, it means long ago.
func TestSoonestAndLatest(t *testing.T) {
	var zero time.Time
	first := time.Unix(1, 0)
	second := first.Add(1)
	for _, tt := range []struct {
		times           []time.Time
		soonest, latest time.Time
	}{
		{[]time.Time{first, second}, first, second},
		{[]time.Time{second, first}, first, second},
		{[]time.Time{zero, first}, first, first},
		{[]time.Time{second, zero, first}, first, second},
		{[]time.Time{zero, zero}, zero, zero},
	} {
		if got := moment.Soonest(tt.times...); got != tt.soonest {
			t.Errorf("the soonest of %v is %v, want %v", tt.times, got, tt.soonest)
		}
		if got := moment.Latest(tt.times...); got != tt.latest {
			t.Errorf("the latest of %v is %v, want %v", tt.times, got, tt.latest)
		}
	}
}
