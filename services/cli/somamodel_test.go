package cli

import (
	"math"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/model"
)

// Nothing is said of a network whose numbers make no sense, or for which an equation cannot be computed.
func TestModelSaysNothingThatIsNoise(t *testing.T) {
	usual := network{c1: 100, c2: 1.55, n1: 1, n2: 1, payload: 512, clients: 4, window: 100, artpMax: 600 * time.Microsecond, timeout: 100 * time.Millisecond, file: 1}
	for _, tt := range []struct {
		change func(*network)
		sensed bool
	}{
		{func(*network) {}, true},
		{func(n *network) { n.n2 = 38 }, true},
		{func(n *network) { n.n2 = 50 }, false},
		{func(n *network) { n.c1 = math.NaN() }, false},
		{func(n *network) { n.c2 = math.Inf(1) }, false},
	} {
		n := usual
		tt.change(&n)
		if err := n.check(); (err == nil) != tt.sensed {
			t.Errorf("%+v: %v", n, err)
		}
	}
	for clients, equations := range map[int]int{model.MostSummed: 11, model.MostSummed + 1: 10, 1_000_000_000: 10} {
		n := usual
		n.clients = clients
		results := n.results()
		if len(results) != equations {
			t.Errorf("of %d clients %d equations are told, want %d", clients, len(results), equations)
		}
		if results[0].Equation == "(8)" && results[0].Value[:3] != results[1].Value[:3] {
			t.Errorf("(8) says %s, and (9) %s", results[0].Value, results[1].Value)
		}
	}
}
