package paper002

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// "Multiple sockets may be used to get a better use of the bandwidth capacity, often
// yielding linear speedup." (002 §3.2, table 2)
func TestConnectionsAddUp(t *testing.T) {
	labtest.Require(t)
	n := internet(1)
	t.Cleanup(func() { n.Close() })
	labtest.Start(t, n.Lab)
	one, err := n.measure(t.Context(), cell{smallest, 1}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	four, err := n.measure(t.Context(), cell{smallest, 4}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("one connection: %v, four: %v", one, four)
	if ratio := float64(four) / float64(one); ratio < 2.5 || ratio > 5 {
		t.Errorf("four connections carry %.1f times what one does", ratio)
	}
}

func TestEveryCellIsMeasuredOnce(t *testing.T) {
	seen := map[cell]bool{}
	for _, c := range cells() {
		if seen[c] {
			t.Errorf("%v twice", c)
		}
		seen[c] = true
	}
	if len(seen) != 4*tableMost+figureMost {
		t.Errorf("%d cells", len(seen))
	}
}
