package window_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// A client that is so far away that one window does not do has its target over several connections, as soon as its congestion windows
// have grown. What it misses until then, or after a loss, is no reason for windows that fill the queue.
func TestFarClientHasItsTargetOverSeveralConnections(t *testing.T) {
	for _, far := range []struct {
		path  time.Duration
		queue int
		cubic bool
	}{
		{200 * ms, 500e3, true}, {200 * ms, 1e6, false}, {400 * ms, 1e6, true}, {400 * ms, 1e6, false}, {400 * ms, 5e6, true},
	} {
		s := newSite(100*mbit, far.queue, controller(t, window.Groupcast))
		u := &upload{path: far.path, cubic: far.cubic}
		u.Name, u.Target = "far", mbits(80)
		s.join(u)
		s.run(60 * second)
		windows := 0
		for _, c := range u.flows {
			windows += c.clamp
		}
		share := float64(windows) / (100 * mbit * far.path.Seconds())
		worst := u.worst(10*second, 20*second, 60*second) / mbit
		t.Logf("%v away, %d KB of queue, cubic %v: at least %.1f Mbit/s by %d connections with windows of %.2f of what the path holds",
			far.path, far.queue/1000, far.cubic, worst, len(u.flows), share)
		if worst < 76 || len(u.flows) < 2 || share > 1.3 {
			t.Errorf("%v away, %d KB of queue, cubic %v: %.1f of 80 Mbit/s by %d connections with windows of %.2f of what the path holds",
				far.path, far.queue/1000, far.cubic, worst, len(u.flows), share)
		}
	}
}
