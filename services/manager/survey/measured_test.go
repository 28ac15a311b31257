package survey

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/algo/cluster"
)

// However many deliveries ask, what is measured is put together only once in a while. Trees know by its version that it is the same: it changes
// only with what is measured.
func TestMeasuredHasTheSameVersionWhileItIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rtt := time.Millisecond
		s := surveying(func(string, string) time.Duration { return rtt })
		s.agent("a", "")
		s.agent("b", "")
		s.rounds(3)
		version := func(group string, threshold time.Duration) uint64 { return s.Measured(group, threshold).RTT.Version }
		first := version("g", 0)
		if version("h", 0) == first || version("g", time.Second) == first {
			t.Error("another group, or another threshold, has the same")
		}
		s.times.Drop("b") // nobody looks again so soon
		if again := version("g", 0); first == 0 || again != first {
			t.Errorf("asked again it is version %d, not %d", again, first)
		}
		time.Sleep(foundFor)
		later := version("g", 0)
		if later == first {
			t.Error("it is never put together again")
		}
		for range 10 {
			time.Sleep(foundFor)
			if again := version("g", 0); again != later {
				t.Fatalf("nothing has changed, and it is version %d, and was %d", again, later)
			}
		}
		time.Sleep(2 * toldFor)
		version("h", 0)
		if f := s.findings[s.of("g", cluster.DefaultThreshold)]; len(f.told) != 1 {
			t.Errorf("it is held of %d groups, want that of the one whose deliveries asked lately", len(f.told))
		}
	})
}
