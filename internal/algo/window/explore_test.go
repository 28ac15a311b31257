package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

func six(s *site, cubic bool, n int) []*upload {
	var all []*upload
	for i := range 6 {
		u := &upload{path: time.Duration(20*(i+1)) * ms, cubic: cubic, wanted: n}
		u.Name = fmt.Sprint("t", i)
		u.Target, u.Minimum, u.Priority = .5*mbit, .25*mbit, 0
		if i%2 == 0 {
			u.Target, u.Minimum, u.Priority = 1*mbit, .5*mbit, 1
		}
		all = append(all, s.join(u))
	}
	return all
}

func report(t *testing.T, s *site, all []*upload, from, to time.Duration) {
	sum := 0.0
	for _, u := range all {
		m := u.mean(from, to)
		sum += m
		t.Logf("  %s rtt %v target %.2f: mean %.3f worst10 %.3f worst.5 %.3f conns %d changes %d", u.Name, u.path, float64(u.Target)/mbit, m/mbit, u.worst(10*second, from, to)/mbit, u.worst(second/2, from, to)/mbit, len(u.flows), u.changes)
	}
	t.Logf("  sum %.3f available %.2f", sum/mbit, float64(s.last.Available)/mbit)
}

func TestExplore(t *testing.T) {
	for _, cubic := range []bool{false, true} {
		for _, name := range []string{window.Proposed, window.Spring, window.Mehra, window.Matsuo, window.Groupcast} {
			s := newSite(10*mbit, 200e3, controller(t, name))
			all := six(s, cubic, 1)
			s.run(20 * second)
			q := s.queue()
			s.run(40 * second)
			t.Logf("%s cubic %v ALONE: queue %.0f dropped %d", name, cubic, q(), s.access.dropped)
			report(t, s, all, 20*second, 60*second)
			d := s.access.dropped
			for i := range 3 {
				s.interfere(time.Duration(30+20*i)*ms, true)
			}
			s.run(20 * second)
			q = s.queue()
			s.run(60 * second)
			t.Logf("%s cubic %v INTERFERED: queue %.0f dropped %d", name, cubic, q(), s.access.dropped-d)
			report(t, s, all, 80*second, 140*second)
			for _, f := range s.foreign {
				f.closed = true
			}
			s.run(20 * second)
			t.Logf("%s cubic %v AFTER: 5 s after", name, cubic)
			report(t, s, all, 145*second, 160*second)
		}
	}
}

func f2(x float64) string { return fmt.Sprintf("%.2f", x) }
func f0(x int) string     { return fmt.Sprintf("%d", x) }
