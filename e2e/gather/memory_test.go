package gather_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/sdk/gather"
)

// C64: receive buffers of all connections together take no more memory than there is for them. Targets of 10 Mbit/s
// over 100 ms take windows of 125 KB, six of them 750 KB: half of 1 MiB are 524 KB. Those of higher priority have
// their targets, and the others what is left: 65 KB each are 5 Mbit/s.
func TestC64MemoryOfAllBuffers(t *testing.T) {
	const memory, settled, end = 1 << 20, 3, 15
	c := gathering.Case{Seed: 64, Access: link.Shape{Rate: 100 * link.Mbit, Queue: link.Size(512 * link.KiB)}, Flags: []string{"--data-memory", fmt.Sprint(memory)}}
	for i := range 6 {
		share := gather.Share{Target: 10 * mbit}
		if i < 2 {
			share.Priority = 1
		}
		c.Terminals = append(c.Terminals, terminal(fmt.Sprint("t", i), 50*time.Millisecond, share))
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
	if most > memory/2 {
		t.Errorf("windows of %d bytes together, want at most half of %d", most, memory)
	}
	for _, one := range c.Terminals {
		got := seen.Rate(one.Name, settled, end)
		t.Logf("%s of priority %d: %.2f Mbit/s", one.Name, one.Share.Priority, got)
		if one.Share.Priority == 1 && got < .95*one.Target() {
			t.Errorf("%s has %.2f Mbit/s, want its target of %.0f", one.Name, got, one.Target())
		}
		if one.Share.Priority == 0 && got > .75*one.Target() {
			t.Errorf("%s has %.2f Mbit/s, more than its window brings", one.Name, got)
		}
	}
}
