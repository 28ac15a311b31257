package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// A link that is said to carry less than it does is kept to, from the beginning, also where round trips are so short that any window brings
// more: the client of higher priority has all of it, and when that has left, the other.
func TestStatedLinkHoldsOnShortPaths(t *testing.T) {
	for _, path := range []time.Duration{ms / 10, ms, 3 * ms, 10 * ms} {
		for _, stated := range []float64{20, 80} {
			s := newSite(1000*mbit, 4<<20, controller(t, window.Groupcast))
			s.link.Rate = mbits(stated)
			join := func(name string, priority int) *upload {
				u := &upload{path: path, cubic: true}
				u.Name, u.Target, u.Priority = name, mbits(stated), priority
				return s.join(u)
			}
			low, high := join("low", 1), join("high", 9)
			s.run(8 * second)
			high.leave()
			s.run(8 * second)
			share := func(u *upload, from, to time.Duration) float64 { return u.mean(from, to) / (stated * mbit) }
			first, beside, alone := share(high, 2*second, 8*second), share(low, 2*second, 8*second), share(low, 10*second, 16*second)
			t.Logf("%v, %v Mbit/s: %.3f beside %.3f, and that one %.3f alone", path, stated, first, beside, alone)
			begun := share(high, 0, 2*second) + share(low, 0, 2*second)
			if first < .95 || first+beside > 1.08 || alone < .95 || alone > 1.08 || begun > 1.5 {
				t.Errorf("%v, %v Mbit/s: %.3f beside %.3f, and that one %.3f alone; %.2f together at first", path, stated, first, beside, alone, begun)
			}
		}
	}
}

// A link that is said to carry more than it does goes by priority as if nothing was said: what is asked for does not bound anybody then.
func TestOverstatedLinkGoesByPriority(t *testing.T) {
	for _, stated := range []float64{60, 100, 1000} {
		s := newSite(50*mbit, 400e3, controller(t, window.Groupcast))
		s.link.Rate = mbits(stated)
		var all []*upload
		for i, priority := range []int{1, 9, 1} {
			u := &upload{path: ms / 10, cubic: true}
			u.Name, u.Target, u.Minimum, u.Priority = fmt.Sprint(i), mbits(30), mbits(3), priority
			all = append(all, s.join(u))
		}
		s.run(20 * second)
		sum := tell(t, all, 5*second, 20*second)
		if share := all[1].mean(5*second, 20*second) / (30 * mbit); share < .75 || sum < .93*50 {
			t.Errorf("%v Mbit/s stated of 50: %.2f of its target, %.1f Mbit/s together", stated, share, sum)
		}
	}
}
