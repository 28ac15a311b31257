package window_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// thesis runs a scenario of 001: long transfers from the start, short ones of 30 KB from some time
// on.
func thesis(t *testing.T, name string, paths []time.Duration, limit int, short time.Duration, shorts int, from time.Duration, after func(*site)) (*site, []*upload, []*upload) {
	s := newSite(4*mbit, limit, controller(t, name))
	var long, brief []*upload
	for i, path := range paths {
		u := &upload{path: path}
		u.Name, u.Target = fmt.Sprint("long", i), .1*mbit
		long = append(long, s.join(u))
	}
	if after != nil {
		after(s)
	}
	random := rand.New(rand.NewPCG(1, 2))
	s.run(from)
	for i := range shorts {
		u := &upload{path: short, bytes: 30e3}
		u.Name, u.Target = fmt.Sprint("short", i), .1*mbit
		brief = append(brief, s.join(u))
		s.run(time.Duration(random.ExpFloat64() * 5e9))
	}
	return s, long, brief
}

func times(brief []*upload) (median, p95 time.Duration, unfinished int) {
	var d []time.Duration
	for _, u := range brief {
		if u.ended == 0 {
			unfinished++
			continue
		}
		d = append(d, u.ended-u.from)
	}
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*95/100], unfinished
}

func TestExploreThesis(t *testing.T) {
	d := func(xs ...int) (p []time.Duration) {
		for _, x := range xs {
			p = append(p, time.Duration(x)*ms)
		}
		return p
	}
	for _, name := range []string{window.Groupcast} {
		for no, sc := range []struct {
			paths []time.Duration
			limit int
			short time.Duration
		}{{nil, 128e3, 20 * ms}, {d(70, 90, 110), 128e3, 20 * ms}, {d(70, 90, 110), 32e3, 510 * ms}, {d(70, 90, 110, 130, 150, 170), 128e3, 190 * ms}} {
			var q func() float64
			s, long, brief := thesis(t, name, sc.paths, sc.limit, sc.short, 100, 100*second, func(s *site) { s.after(100*second, func() { q = s.queue() }) })
			m, p, un := times(brief)
			line, sum, sq := "", 0.0, 0.0
			for _, u := range long {
				x := u.mean(100*second, s.now)
				sum += x
				sq += x * x
				line += fmt.Sprintf(" %.2f", x/mbit)
			}
			t.Logf("%-11s sc %d: median %v p95 %v (%d open) queue %.1f KB dropped %d util %.3f jain %.3f long%s", name, no, m.Round(ms), p.Round(ms), un, q()/1e3, s.access.dropped, float64(s.access.carried)/(4*mbit*s.now.Seconds()), sum*sum/(sq*float64(len(long))), line)
		}
	}
}

func TestExploreUDP(t *testing.T) {
	for _, name := range []string{window.Groupcast} {
		s := newSite(4*mbit, 128e3, controller(t, name))
		var long []*upload
		for i, path := range []int{70, 90, 110} {
			u := &upload{path: time.Duration(path) * ms}
			u.Name, u.Target = fmt.Sprint("long", i), .1*mbit
			long = append(long, s.join(u))
		}
		for _, x := range []struct{ from, to, rate float64 }{{50, 150, 1}, {150, 250, 2}, {250, 350, 3}, {500, 600, 1}, {600, 700, 2}, {700, 800, 3}} {
			s.after(time.Duration(x.from)*second, func() { s.access.stream(x.rate*mbit, time.Duration(x.to)*second) })
		}
		line := ""
		for _, c := range []struct{ to, free float64 }{{50, 4}, {150, 3}, {250, 2}, {350, 1}, {355, 4}, {360, 4}, {500, 4}, {600, 3}, {700, 2}, {800, 1}, {805, 4}} {
			from := s.now
			d, q := s.access.dropped, s.queue()
			s.until(time.Duration(c.to) * second)
			sum := 0.0
			for _, u := range long {
				sum += u.mean(from, s.now)
			}
			line += fmt.Sprintf(" %.0f:%.2f/%.0f q%.0f d%d", c.to, sum/mbit*wire/payload, c.free, q()/1e3, s.access.dropped-d)
		}
		t.Logf("%-11s %s", name, line)
	}
}
