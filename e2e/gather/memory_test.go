package gather_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/sdk/gather"
)

// C64: the receive buffers of all connections together take no more memory than they are given. Targets of 10 Mbit/s
// over 100 ms need windows of 125 KB, six of them 750 KB; a third of 1 MiB is 350 KB. Clients of higher priority
// have the windows for their targets, and the others share what is left: 25 KB each, which gives 2 Mbit/s.
func TestC64MemoryOfAllBuffers(t *testing.T) {
	const memory, settled, end, roundTrip = 1 << 20, 3, 15, 100 * time.Millisecond
	c := gathering.Case{Seed: 64, Access: link.Shape{Rate: 100 * link.Mbit, Queue: link.Size(512 * link.KiB)}, Flags: []string{"--data-memory", fmt.Sprint(memory)}}
	for i := range 6 {
		share := gather.Share{Target: 10 * mbit}
		if i < 2 {
			share.Priority = 1
		}
		c.Terminals = append(c.Terminals, terminal(fmt.Sprint("t", i), roundTrip/2, share))
	}
	seen := observe(t, c, func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		return s.Until(end * time.Second)
	})
	most := uint64(0)
	for _, round := range seen.Rounds {
		most = max(most, round.Window)
	}
	t.Logf("windows of %d bytes together at most", most)
	if most > memory/3 {
		t.Errorf("windows of %d bytes together, want at most a third of %d", most, memory)
	}
	least, highest := math.Inf(1), 0. // rates of those of priority 1, and of the others
	for _, one := range c.Terminals {
		rate, window := seen.Rate(one.Name, settled, end), medianWindow(seen, one.Name, settled)
		t.Logf("%s of priority %d: %.2f Mbit/s by a window of %.0f bytes", one.Name, one.Share.Priority, rate, window)
		takes := float64(one.Share.Target) * roundTrip.Seconds()
		if one.Share.Priority == 1 {
			least = min(least, rate)
			if window < takes {
				t.Errorf("%s has a window of %.0f bytes: its target takes %.0f", one.Name, window, takes)
			}
			continue
		}
		highest = max(highest, rate)
		if rate > .75*one.Target() {
			t.Errorf("%s has %.2f Mbit/s, more than its window brings", one.Name, rate)
		}
	}
	// A machine that is busy with other work slows all of them down alike.
	if least < 1.5*highest {
		t.Errorf("of priority 1 one has %.2f Mbit/s, and of priority 0 one %.2f: windows are as 1.9 to 1", least, highest)
	}
}

// medianWindow returns the window that a client had at least in half of the rounds from a time on.
func medianWindow(seen *gathering.Seen, client string, from float64) float64 {
	var windows []float64
	for _, round := range seen.Rounds {
		for _, one := range round.Clients {
			if one.Name == client && round.At >= from {
				windows = append(windows, float64(one.Window))
			}
		}
	}
	return measure.Median(windows)
}
