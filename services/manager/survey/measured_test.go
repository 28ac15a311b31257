package survey

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/services/manager/view"
)

// However many deliveries ask, what is measured is put together only once in a while: trees know by its version that it is the same.
func TestMeasuredIsPutTogetherOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Lead(view.New(nil, slog.New(slog.DiscardHandler)), nil)
		version := func(group string, threshold time.Duration) uint64 { return s.Measured(group, threshold).RTT.Version }
		first := version("g", 0)
		time.Sleep(foundFor / 2)
		if again := version("g", 0); first == 0 || again != first {
			t.Errorf("asked again it is version %d, not %d", again, first)
		}
		if version("h", 0) == first || version("g", time.Second) == first {
			t.Error("another group, or another threshold, has the same")
		}
		time.Sleep(foundFor / 2)
		later := version("g", 0)
		if later == first {
			t.Error("it is never put together again")
		}
		for _, f := range s.findings {
			f.at = time.Time{} // as when an agent has come or gone
		}
		if version("g", 0) == later {
			t.Error("with other agents it is the same")
		}
	})
}
