package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
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
		{func(n *network) { n.n2 = 37 }, true},
		{func(n *network) { n.n2 = 38 }, false}, // a single packet is confirmed too late
		{func(n *network) { n.c2, n.payload = 0.05, 1000 }, false},
		{func(n *network) { n.c2, n.payload = 100, 65496 }, true},
		{func(n *network) { n.c2, n.payload = 100, 65497 }, false},
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

// Windows that the equations give, and that are greater than the maximum, are told to be.
func TestModelSaysWhichWindowsAreTooGreat(t *testing.T) {
	for window, want := range map[int][]string{36: {"(15)", "(16)", "(18)"}, 37: {"(18)"}, 38: nil} {
		n := network{c1: 100, c2: 1.55, n1: 1, n2: 1, payload: 512, clients: 4, window: window, artpMax: 600 * time.Microsecond, timeout: 100 * time.Millisecond, file: 1}
		var told []string
		for _, r := range n.results() {
			if strings.HasSuffix(r.What, fmt.Sprintf(": more than the maximum, %d", window)) {
				told = append(told, r.Equation)
			}
		}
		if !slices.Equal(told, want) {
			t.Errorf("with a maximum of %d: %v, want %v", window, told, want)
		}
	}
}
