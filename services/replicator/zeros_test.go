package replicator_test

import (
	"context"
	"os"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// leaden is a landing on something that takes zeros slowly.
type leaden struct {
	receive.Landing
	perMB time.Duration
}

func (l *leaden) Zeros(count uint64) error {
	time.Sleep(time.Duration(float64(count) / 1e6 * float64(l.perMB)))
	return l.Landing.Zeros(count)
}

// A long run of zeros, of which a sender tells with one datagram, lands for longer than anybody may be silent: neither gives the
// other up, and what comes behind it is taken meanwhile.
func TestLongRunOfZeros(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(2_000_000)
	file, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	end := make([]byte, 1_000_000)
	for i := range end {
		end[i] = byte(b.random.Uint32())
	}
	if _, err := file.WriteAt(end, 60_000_000); err != nil {
		t.Fatal(err)
	}
	const patience = 1500 * time.Millisecond
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
		c.Patience = patience
		if c.Name == "receiver2" {
			open := c.Open
			c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
				landing, err := open(ctx, info)
				return &leaden{landing, 80 * time.Millisecond}, err
			}
		}
	})
	result, err := b.send(t.Context(), func(c *send.Config) { c.Patience = patience })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
	for _, m := range result.Members {
		if m.Outcome != algo.Complete {
			t.Errorf("%+v", m)
		}
	}
	if result.Took < 2*patience {
		t.Errorf("the zeros had landed after %v", result.Took)
	}
	t.Logf("%v; %+v", result.Took, result.Counts)
}
