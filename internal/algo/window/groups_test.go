package window_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// behind adds to an access link the links that lead to it: packets of no flow leave it for elsewhere.
func (s *site) behind(rates ...float64) (links []*pipe) {
	for _, rate := range rates {
		p := &pipe{world: &s.world, rate: rate, limit: 128e3}
		p.arrive = func(one packet) {
			if one.flow != nil {
				s.access.take(one)
			}
		}
		links = append(links, p)
	}
	return links
}

// five has five clients come over a link.
func (s *site) five(name string, path time.Duration, own *pipe) (all []*upload) {
	for i := range 5 {
		u := &upload{path: path, own: own}
		u.Name = fmt.Sprint(name, " client ", i)
		all = append(all, s.join(u))
	}
	return all
}

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
			links := s.behind(20*mbit, 20*mbit)
			groups := make([][]*upload, len(c.groups))
			for g, over := range c.groups {
				groups[g] = s.five(fmt.Sprint("group ", g), time.Duration(50+15*g)*ms, links[over])
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

// Others fill the queue on one client's way: what it does not take of the access link, the other clients have.
func TestQueueOnOneWayLeavesNothingIdle(t *testing.T) {
	s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
	var foreign []*flow
	own := &pipe{world: &s.world, rate: 5 * mbit, limit: 75e3}
	own.arrive = func(one packet) {
		if slices.Contains(foreign, one.flow) { // it ends before the access link
			one.flow.receive(one)
			return
		}
		s.access.take(one)
	}
	var all []*upload
	for i := range 6 {
		u := terminal(1, i, true)
		if i == 1 {
			u.own = own
		}
		all = append(all, s.join(u))
	}
	s.run(20 * second)
	for i := range 3 {
		f := newFlow(&s.world, own, time.Duration(30+10*i)*ms, func() uint64 { return math.MaxUint64 / 2 / payload })
		foreign = append(foreign, f)
		f.start()
	}
	s.run(40 * second)
	if sum := tell(t, all, 25*second, 60*second); sum < .95*goodput*10*mbit {
		t.Errorf("%.2f Mbit/s together", sum/mbit)
	}
	wantTargets(t, slices.Delete(all, 1, 2), 1, 5*second, 25*second, 60*second)
}

// A link on the way of ten clients becomes narrow after five others have come over another one, whose round trips have not been seen
// without a queue. The queue of the ten is not taken for the access link's, and the five soon have what is left of that. That holds,
// too, if no queue has been seen since they came, so that nobody looked; and if they came just before.
func TestWhoCameIsNotHeldBackForOthersQueues(t *testing.T) {
	for name, c := range map[string]struct {
		before, after time.Duration
		unseen        bool // no queue is seen until the link becomes narrow
	}{
		"came a second before":       {before: 22192 * ms, after: 868 * ms},
		"came another second before": {before: 23288 * ms, after: 1052 * ms},
		"came two before":            {before: 28 * second, after: 1868 * ms},
		"came ten before":            {before: 65 * second, after: 10 * second, unseen: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(20*mbit, 128e3, controller(t, window.Groupcast))
			links := s.behind(20*mbit, 20*mbit)
			s.five("a", 100*ms, links[0])
			s.five("b", 140*ms, links[0])
			s.run(c.before)
			d := s.five("d", 160*ms, links[1])
			if c.unseen {
				s.lie = seeNoQueue
			}
			s.run(c.after)
			s.lie = nil
			links[0].stream(15*mbit, s.now+20*second)
			from := s.now + 5*second
			s.run(20 * second)
			got := rate(d, from, s.now) / mbit / goodput
			t.Logf("%.2f of 15 Mbit/s", got)
			if got < 9 {
				t.Errorf("%.2f of 15 Mbit/s in the mean of 5 to 20 s", got)
			}
		})
	}
}

func seeNoQueue(facts *window.Facts) {
	for _, c := range facts.Clients {
		for i := range c.Connections {
			c.Connections[i].RTT = c.Connections[i].LeastRTT
		}
	}
}
