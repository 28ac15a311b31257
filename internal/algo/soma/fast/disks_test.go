package fast_test

import (
	"fmt"
	"testing"
	"time"
)

// Members whose disks take a quarter or half of what the network brings pace all others, however many these are, of whom only some are asked at a
// time: next to nothing is sent twice.
func TestSlowDisksOfMany(t *testing.T) {
	for _, c := range []struct {
		members, slow int
		rate, disk    float64
	}{
		{4, 1, mbit100, 3e6},
		{9, 1, mbit100, 6e6},
		{16, 1, mbit100, 3e6},
		{16, 8, mbit100, 3e6},
		{32, 1, mbit100, 3e6},
		{32, 2, mbit100, 6e6},
		{32, 32, mbit100, 6e6},
		{100, 1, mbit100, 6e6},
		{16, 1, mbit1000, 40e6},
		{32, 2, mbit1000, 60e6},
	} {
		t.Run(fmt.Sprintf("%d of %d, %.0f of %.0f MB a second", c.slow, c.members, c.disk/1e6, c.rate/1e6), func(t *testing.T) {
			length := uint64(min(5*c.rate, 150e6))
			n := begin(t, setting{length: length, members: c.members, uplink: cable{rate: c.rate, queue: 200}, cable: lan(c.rate), seed: 22, change: patient})
			for i := range c.slow {
				n.members[i*c.members/c.slow].disk = c.disk
			}
			n.run(5 * time.Minute)
			n.wantComplete()
			sent, took, due := float64(n.sentPackets*n.shape.Packet)/float64(length), n.last().Seconds(), float64(length)/c.disk
			t.Logf("sent %.2f times, in %.1f s of %.1f", sent, took, due)
			if sent > 1.15 {
				t.Errorf("%.2f times as many packets were sent as the object has", sent)
			}
			if took > 1.3*due+1 {
				t.Errorf("it took %.1f s, the disks %.1f", took, due)
			}
		})
	}
}

// While the source is read more slowly than the network carries, nobody counts as silent, however many members take turns in answering.
func TestSlowSourceSilencesNobody(t *testing.T) {
	for _, members := range []int{4, 12, 32, 100} {
		n := begin(t, setting{length: 40e6, members: members, uplink: cable{rate: mbit1000, queue: 200}, cable: lan(mbit1000), seed: 29, change: patient})
		n.source = func(block uint32) bool { return float64(block) < n.now.Sub(n.begun).Seconds()*30 } // some 2.7 MB a second, now and then a block
		n.run(time.Minute)
		n.wantComplete()
		if got := n.sender.Counts().Timeouts; got > 0 {
			t.Errorf("of %d members %d times one was silent", members, got)
		}
	}
}
