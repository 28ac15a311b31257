package replicator_test

import (
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// Two receivers on one machine that are called the same, as all there are where nobody says otherwise, are two: each is waited for, and
// served, and has a receipt of its own.
func TestTwoReceiversOfOneName(t *testing.T) {
	lossy := link.Shape{Rate: 20 * link.Mbit, Delay: 100 * time.Microsecond, Queue: link.Packets(200), Loss: 0.01}
	for name, isLate := range map[string]bool{"before it has begun": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 2, lossy)
			b.receivers[1] = b.receivers[0]
			b.file(6_000_000)
			alike := func(c *receive.Config) { c.Name = "localhost" }
			first, second := b.receive(t.Context(), 0, alike), make(chan received, 1)
			begin := sync.OnceFunc(func() { go func() { second <- <-b.receive(t.Context(), 1, alike) }() })
			b.told = func(p send.Progress) {
				if p.Sent > 1_000_000 {
					begin()
				}
			}
			receivers := 1
			if !isLate {
				begin()
				receivers = 2
			}
			result, err := b.send(limited(t), forEver, func(c *send.Config) { c.Receivers = receivers })
			b.wantComplete(result, err, first, second)
			b.wantCopies(0, 1)
			if m := result.Members; len(m) != 2 || m[0].Name == m[1].Name {
				t.Errorf("receipts %+v", m)
			}
		})
	}
}
