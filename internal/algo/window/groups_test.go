package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// 001 §4.2.6 in short: groups of five senders each over two links of 20 Mbit/s to an access link of as much, and UDP
// that takes 15 of the first link for twenty seconds. What those behind it leave of the access link the others have,
// be they half of the clients or a third.
func TestGroupsHeldUpOnLinksOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		name   string
		groups []int // over which of the links
		want   []float64
	}{
		{"half of the clients", []int{0, 1}, []float64{5, 15}},
		{"two of three clients", []int{0, 0, 1}, []float64{2.5, 2.5, 15}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(20*mbit, 128e3, controller(t, window.Groupcast))
			var links []*pipe
			for range 2 {
				p := &pipe{world: &s.world, rate: 20 * mbit, limit: 128e3}
				p.arrive = func(one packet) {
					if one.flow != nil { // UDP goes elsewhere
						s.access.take(one)
					}
				}
				links = append(links, p)
			}
			groups := make([][]*upload, len(c.groups))
			for g, over := range c.groups {
				for i := range 5 {
					u := &upload{path: time.Duration(50+15*g) * ms, own: links[over]}
					u.Name = fmt.Sprint("group ", g, " client ", i)
					groups[g] = append(groups[g], s.join(u))
				}
			}
			sum := func(g int, from, to time.Duration) float64 { return rate(groups[g], from, to) / mbit / goodput }
			s.run(20 * second)
			links[0].stream(15*mbit, 40*second)
			s.run(30 * second)
			for g, want := range c.want {
				t.Logf("group %d: %.2f Mbit/s of 20 s, %.2f beside UDP (%.1f), %.2f after it", g, sum(g, 10*second, 20*second), sum(g, 25*second, 40*second), want, sum(g, 45*second, 50*second))
			}
			total := 0.
			for g := range groups {
				total += sum(g, 25*second, 40*second)
			}
			if total < .95*20 {
				t.Errorf("%.2f Mbit/s together beside UDP, want 19", total)
			}
		})
	}
}
