package paper002

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/internal/algo/parallel"
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

// A link that tunes itself is several times as fast as one with a single stripe, and nearly as fast as connections with
// the best number and buffer, which nobody has to find out.
func TestLinkTunesItself(t *testing.T) {
	labtest.Require(t)
	n := internet(1)
	t.Cleanup(func() { n.Close() })
	labtest.Start(t, n.Lab)
	tuned, err := n.tune(t.Context(), today, parallel.Bounds{Least: 1, Most: parallel.Most})
	if err != nil {
		t.Fatal(err)
	}
	single, err := n.measure(t.Context(), cell{65536, 1}, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	many, err := n.measure(t.Context(), cell{65536, tableMost}, cellTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("one connection: %v, %d: %v, a link: %v: %s", single, tableMost, many, tuned.rate, strings.Join(tuned.choices, "\n"))
	if ratio := float64(tuned.rate) / float64(single); ratio < 2 {
		t.Errorf("it is %.1f times as fast as one connection", ratio)
	}
	if ratio := float64(tuned.rate) / float64(many); ratio < 0.75 {
		t.Errorf("it is %.2f times as fast as %d connections", ratio, tableMost)
	}
}

// "An enhancement to the Cluster Tree protocol will allow parallel packet distribution between a
// host and its direct children" (002 §3): one child's slowness delays no sibling.
func TestSlowChildDelaysNoSibling(t *testing.T) {
	labtest.Require(t)
	f := newFamily(1)
	t.Cleanup(func() { f.Close() })
	labtest.Start(t, f.Lab)
	inTurn, err := f.inTurn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	atOnce, err := f.atOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("in turn: %v; at once: %v", inTurn, atOnce)
	for i := range childCount {
		if i != slowChild && (2*atOnce[i] > atOnce[slowChild] || 2*atOnce[i] > inTurn[i]) {
			t.Errorf("child %d took %v at once, %v in turn; the slow one %v", i, atOnce[i], inTurn[i], atOnce[slowChild])
		}
	}
}
