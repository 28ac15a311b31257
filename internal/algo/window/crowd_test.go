package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// crowd returns the facts of many clients with some connections each.
func crowd(clients, connections int) window.Facts {
	facts := window.Facts{Link: window.Link{Rate: 1000 * mbit}}
	id := uint64(0)
	for i := range clients {
		c := window.Client{
			Name: fmt.Sprint("client ", i), Target: 1 * mbit, Minimum: .5 * mbit, Priority: i % 4, Active: true, Throughput: 1.5 * mbit,
		}
		for range connections {
			id++
			c.Connections = append(c.Connections, window.Connection{
				ID: id, Age: 10 * second, RTT: time.Duration(20+i%100) * ms, LeastRTT: time.Duration(20+i%100) * ms, MSS: payload,
				Throughput: 1.5 * mbit / window.Rate(connections), Received: 1e6 + id, Window: 8000,
			})
		}
		facts.Clients = append(facts.Clients, c)
	}
	return facts
}

func BenchmarkStep(b *testing.B) {
	for _, name := range window.Names() {
		b.Run(name, func(b *testing.B) {
			c, facts, now := controller(b, name), crowd(500, 4), time.Unix(1e9, 0)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(window.Interval)
				c.Step(now, facts)
			}
		})
	}
}

// Five hundred clients with four connections each share a link of 100 Mbit/s: all have their target of .15 Mbit/s, although 20
// of them stall and hold what they were given.
func TestFiveHundredClients(t *testing.T) {
	s := newSite(100*mbit, 2e6, controller(t, window.Groupcast))
	s.link.Memory = 32 << 20
	var all []*upload
	for i := range 500 {
		u := &upload{path: time.Duration(20+i%10*10) * ms, wanted: 4, cubic: i%2 == 0}
		u.Name, u.Target, u.Minimum, u.Priority = fmt.Sprint("client ", i), .15*mbit, .1*mbit, i%2
		if i < 20 {
			u.rate = 1 // stalls
		}
		all = append(all, s.join(u))
	}
	s.run(30 * second)
	met, sum := 0, 0.0
	for _, u := range all[20:] {
		mean := u.mean(20*second, 30*second)
		sum += mean
		if mean >= .95*float64(u.Target) {
			met++
		}
	}
	t.Logf("%d of 480 targets met, %.1f Mbit/s, %d bytes of windows, %d dropped", met, sum/mbit, s.last.Budget, s.access.dropped)
	if met < 470 || sum < .95*goodput*100*mbit {
		t.Errorf("%d of 480 targets met, %.1f Mbit/s", met, sum/mbit)
	}
	if s.last.Budget > s.link.Memory {
		t.Errorf("%d bytes of windows", s.last.Budget)
	}
}
