package paper000

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit))
}

// 000 §V-A: the traditional method uses the first link in proportion to the number of connections,
// and the member that gets least gets far less than its share.
func TestUnicastSendsACopyForEveryReceiver(t *testing.T) {
	labtest.Require(t)
	o, err := unicast(context.Background(), point{senders: 1, members: 1, trunkDelay: 10 * time.Millisecond, load: 0.2}, 1, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("uplink %.1f, sent %.1f, reception %.1f Mbit/s", o.consumption, o.sent, o.reception)
	if o.sent < 10 || o.sent > 40 {
		t.Errorf("sent %.1f Mbit/s at a load of 0.2 of 100", o.sent)
	}
	if o.consumption < 1.5*o.sent {
		t.Errorf("the uplink carried %.1f Mbit/s for three copies of %.1f", o.consumption, o.sent)
	}
	if o.effective() <= 0 || o.effective() > 1 {
		t.Errorf("effective throughput %.2f", o.effective())
	}
}

func TestEveryPointIsMeasuredOnce(t *testing.T) {
	seen := map[point]bool{}
	for _, p := range points() {
		if seen[p] {
			t.Errorf("%v twice", p)
		}
		seen[p] = true
	}
	if len(seen) != 22 {
		t.Errorf("%d points, want 22", len(seen))
	}
}
