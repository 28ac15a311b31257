package window_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// Any clients that have a link to themselves, with room for a third more than their targets, have
// these, and use the link, within ten seconds.
func TestAnyClientsWithRoomHaveTheirTargets(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			link := (4 + 60*random.Float64()) * mbit
			s := newSite(link, int(20e3+link*(.05+.2*random.Float64())), controller(t, window.Groupcast))
			n := 1 + random.IntN(8)
			weights, sum := make([]float64, n), 0.0
			for i := range weights {
				weights[i] = .2 + random.Float64()
				sum += weights[i]
			}
			var all []*upload
			for i, weight := range weights {
				u := &upload{path: time.Duration(15+random.IntN(200)) * ms, cubic: random.IntN(2) == 0}
				u.Name, u.Target = fmt.Sprint("client ", i), window.Rate(weight/sum*link*goodput*.75)
				u.Priority = random.IntN(3)
				all = append(all, s.join(u))
				s.run(time.Duration(random.IntN(1000)) * ms)
			}
			from := s.now + 10*second
			s.run(30 * second)
			total := tell(t, all, from, from+20*second)
			t.Logf("%.2f of %.2f Mbit/s", total/mbit, link*goodput/mbit)
			wantTargets(t, all, .95, 10*second, from, from+20*second)
			if total < .92*link*goodput {
				t.Errorf("%.2f of %.2f Mbit/s are used", total/mbit, link*goodput/mbit)
			}
		})
	}
}
