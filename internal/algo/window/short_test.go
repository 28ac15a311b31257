package window_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// shorts has a client upload small files at exponential intervals, each over a connection of its own. It returns how long
// they took.
func (s *site) shorts(u *upload, interval time.Duration, random *rand.Rand) *[]float64 {
	u.site = s
	s.uploads = append(s.uploads, u)
	u.bins = make([]float64, s.now/bin)
	took := new([]float64)
	var next func()
	next = func() {
		u.open()
		one, began := u.flows[len(u.flows)-1], s.now
		one.done = func() {
			*took = append(*took, (s.now - began).Seconds())
			one.closed = true
			u.gone += one.received
			u.flows = slices.DeleteFunc(u.flows, func(other *conn) bool { return other == one })
		}
		s.after(time.Duration(random.ExpFloat64()*float64(interval)), next)
	}
	next()
	return took
}

// The thesis's first scenario (001 §4.2.1) in short: three long uploads fill 4 Mbit/s, and files of 30 KB come every second
// beside them. They find a queue of few segments, and the link is used all the same.
func TestShortTransfersFindAShortQueue(t *testing.T) {
	for seed := range uint64(4) {
		s := newSite(4*mbit, 128<<10, controller(t, window.Groupcast))
		for i, name := range []string{"a", "b", "c"} {
			u := &upload{path: time.Duration(70+20*i) * ms}
			u.Name = name
			s.join(u)
		}
		d := &upload{path: 20 * ms, bytes: 30e3}
		d.Name = "d"
		s.run(20 * second)
		took := s.shorts(d, time.Second, rand.New(rand.NewPCG(seed, 0)))
		queue, before := s.queue(), s.access.carried
		s.run(100 * second)
		slices.Sort(*took)
		used, median := float64(s.access.carried-before)/100/(4*mbit), (*took)[len(*took)/2]
		t.Logf("%.3f of the link are used, the queue is %.1f KB, %d files take %.3f s", used, queue()/1e3, len(*took), median)
		if used < .925 || queue() > 13e3 || median > .175 || s.access.dropped > 0 {
			t.Errorf("%.3f of the link are used, the queue is %.1f KB, files take %.3f s, %d packets are lost", used, queue()/1e3, median, s.access.dropped)
		}
	}
}

// crowds has a client send one file after the other, each over a connection of its own, so many at a time: no connection of it is ever long.
func (s *site) crowds(u *upload, atOnce int) {
	u.site = s
	s.uploads = append(s.uploads, u)
	u.bins = make([]float64, s.now/bin)
	var next func()
	next = func() {
		u.open()
		one := u.flows[len(u.flows)-1]
		one.done = func() {
			one.closed = true
			u.gone += one.received
			u.flows = slices.DeleteFunc(u.flows, func(other *conn) bool { return other == one })
			next()
		}
	}
	for range atOnce {
		next()
	}
}

// A client all of whose uploads are short, many at a time, has the windows of short ones, and takes nobody's target.
func TestManyShortUploadsTakeNoTargets(t *testing.T) {
	for _, atOnce := range []int{4, 16, 64} {
		s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
		all := six(s, true)
		s.run(20 * second)
		crowd := &upload{path: 20 * ms, bytes: 100e3}
		crowd.Name = "crowd"
		s.crowds(crowd, atOnce)
		s.run(80 * second)
		t.Logf("%d at once: the crowd has %.2f Mbit/s", atOnce, crowd.mean(30*second, 100*second)/float64(mbit))
		tell(t, all, 30*second, 100*second)
		wantTargets(t, all, .95, 10*second, 30*second, 100*second)
	}
}
