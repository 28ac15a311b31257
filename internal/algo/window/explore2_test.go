package window_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

func TestTrace(t *testing.T) {
	s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
	all := six(s, true, 1)
	s.run(0)
	for i := range 0 {
		s.interfere(time.Duration(30+20*i)*ms, true)
	}
	for range 20 {
		s.run(500 * ms)
		line := ""
		for i, u := range all {
			w := 0
			for _, x := range s.last.Shares[i].Windows {
				w += x.Bytes
			}
			n := len(u.bins)
			line += " | " + f2(u.mean(time.Duration(n-5)*bin, time.Duration(n)*bin)/mbit) + " w" + f0(w/1000) + " n" + f0(len(u.flows)) + " " + string(s.last.Shares[i].Reason)[:3]
		}
		t.Logf("%5.1f A %.1f q %3.0f%s", s.now.Seconds(), float64(s.last.Available)/mbit, float64(s.access.waiting())/1000, line)
	}
}
