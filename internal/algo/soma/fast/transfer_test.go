package fast_test

import (
	"testing"
	"time"
)

const (
	mbit100 = 12.5e6
	mbit2   = 0.25e6
)

func lan(rate float64) func(int) cable {
	return func(int) cable { return cable{rate: rate, queue: 200, delay: 100 * time.Microsecond} }
}

// share is goodput over the rate of the line.
func share(n *network, rate float64) float64 {
	return float64(n.shape.Length) / rate / n.last().Seconds()
}

// 10 MB over a LAN of 100 Mbit/s with no rate given: at least 90 % of the line; 100 MB: 94 %.
func TestRateIsFound(t *testing.T) {
	for _, c := range []struct {
		length uint64
		want   float64
	}{{10e6, 0.90}, {100e6, 0.94}} {
		for _, members := range []int{1, 4, 16} {
			n := begin(t, setting{length: c.length, members: members, uplink: cable{rate: mbit100, queue: 200}, cable: lan(mbit100), seed: 1})
			n.run(time.Minute)
			n.wantComplete()
			if got := share(n, mbit100); got < c.want {
				t.Errorf("%g bytes to %d members at %.3f of the line, want %.2f; window %d, %+v", float64(c.length), members, got, c.want, n.sender.Window(), n.sender.Counts())
			} else {
				t.Logf("%g bytes to %d members: %.3f, %+v", float64(c.length), members, got, n.sender.Counts())
			}
		}
	}
}

// 1 % independent loss, 8 receivers: repair bytes at most 1.5 of what was lost, stretch at most 1.10.
func TestScatteredLossIsRepairedByParity(t *testing.T) {
	n := begin(t, setting{length: 20e6, members: 8, uplink: cable{rate: mbit100, queue: 200}, seed: 2, cable: func(int) cable {
		return cable{rate: mbit100, queue: 200, delay: 100 * time.Microsecond, loss: 0.01}
	}})
	n.run(time.Minute)
	n.wantComplete()
	t.Logf("%d sent again, %d lost, %.3f of the line, %+v", n.repairs, n.lost, share(n, mbit100), n.sender.Counts())
	if n.repairs > n.lost*3/2 {
		t.Errorf("%d packets were sent again, and %d were lost", n.repairs, n.lost)
	}
	if stretch := 1 / share(n, mbit100); stretch > 1.10 {
		t.Errorf("stretch %.3f", stretch)
	}
}
