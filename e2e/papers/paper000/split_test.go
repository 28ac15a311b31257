package paper000

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/sdk"
)

// 000 §V-A: the proposed methods use the sender's link once, however many members there are, and
// every member receives what is sent.
func TestSplitConnectionsSendOneCopy(t *testing.T) {
	labtest.Require(t)
	p := point{senders: 1, members: 2, trunkDelay: 10 * time.Millisecond, load: 0.2}
	for _, mode := range []sdk.ControlMode{sdk.Hop, sdk.EndToEnd} {
		o, err := split(t.Context(), mode, p, tuning{ahead: 4}, 1, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: uplink %.1f, sent %.1f, reception %.1f Mbit/s, cache ratio %.2f, %+v", mode, o.consumption, o.sent, o.reception, o.cache, o.tally)
		if o.consumption > 1.2*o.sent {
			t.Errorf("%s: the uplink carried %.1f Mbit/s for %.1f sent", mode, o.consumption, o.sent)
		}
		if o.effective() < 0.6 || o.effective() > 1 {
			t.Errorf("%s: effective throughput %.2f", mode, o.effective())
		}
		if o.tally.lost+o.tally.unfulfilled > 0 {
			t.Errorf("%s: %+v: %s", mode, o.tally, o.complaint)
		}
	}
}
