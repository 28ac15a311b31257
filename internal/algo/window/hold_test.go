package window_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// A window is left as it is while the one that is wanted differs by no more than 3 %, or by a quarter of a segment: rates and round
// trips that are measured are never twice the same. Over 98 ms, and 2 that reading takes, a link of 1 MB/s takes 100,000 bytes, and one of
// 1.02 MB/s 102,000. With segments of 1,000 bytes, 5,000 and 5,200 are the same, and 5,000 and 5,300 are not.
func TestWindowsThatAreAlmostTheSameAreHeld(t *testing.T) {
	for _, tt := range []struct {
		set  int
		rate float64 // bytes per second that the link carries
		want int
	}{
		{0, 1e6, 100e3},
		{100e3, 1.02e6, 100e3},
		{100e3, .98e6, 100e3},
		{100e3, 1.04e6, 104e3},
		{100e3, .96e6, 96e3},
		{5e3, .052e6, 5e3},
		{5e3, .048e6, 5e3},
		{5e3, .053e6, 5300},
		{5e3, .047e6, 4700},
	} {
		facts := long(98 * ms)
		facts.Link.Rate = window.Rate(tt.rate)
		one := &facts.Clients[0]
		one.Throughput, one.Connections[0].Throughput, one.Connections[0].Window = facts.Link.Rate, facts.Link.Rate, tt.set
		b := newBench(t, window.Groupcast, window.Options{})
		b.wantBytes(b.step(facts), tt.want)
	}
}
