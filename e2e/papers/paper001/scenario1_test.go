package paper001

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// 001 §4.2: the traditional scheme fills the access link, and short downloads pay for that by waiting in the queue.
func TestTraditionalFillsLinkAndQueue(t *testing.T) {
	labtest.Require(t)
	p := schedule(experiment.Options{Seed: 1, Duration: 11 * time.Second})
	o, err := run(context.Background(), "reno", p)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.transfers) != shortCount || len(o.long) != 3 {
		t.Fatalf("%d short and %d long downloads", len(o.transfers), len(o.long))
	}
	if busy := o.utilization.Mean(); busy < 80 || busy > 101 {
		t.Errorf("utilization %.1f %%", busy)
	}
	establishment, transfer := seconds(o.transfers)
	if median := measure.Median(establishment); median < 3*2*0.010 {
		t.Errorf("median establishment %.3f s, though the queue is long", median)
	}
	if measure.Median(transfer) <= measure.Median(establishment) {
		t.Error("30 KB took less time than the handshake")
	}
	if o.dropped.Packets == 0 {
		t.Error("the router's buffer never overflowed")
	}
}

func TestSendersAreAsFarAsInThePaper(t *testing.T) {
	n := scenario1(1)
	for _, sender := range senders {
		if n.senders[sender.name] == nil || sender.delay <= accessDelay {
			t.Errorf("sender %s at %v", sender.name, sender.delay)
		}
	}
	if shape := n.access.Shape(); shape.Rate != accessRate || shape.Queue.Bytes != 131072 {
		t.Errorf("access link %+v", shape)
	}
}
