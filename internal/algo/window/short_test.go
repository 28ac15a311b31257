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

// thesis is what the thesis's first scenario (001 §4.2.1) gives.
type thesis struct {
	used, queue, took float64 // the share of the link, bytes, and the median time of a file in seconds
	files, dropped    int
}

// shortBesideLong is that scenario in short: three long uploads fill 4 Mbit/s, and files of 30 KB come every second beside them.
func shortBesideLong(t *testing.T, name string, seed uint64, settle, long time.Duration) thesis {
	s := newSite(4*mbit, 128<<10, controller(t, name))
	for i, name := range []string{"a", "b", "c"} {
		u := &upload{path: time.Duration(70+20*i) * ms}
		u.Name = name
		s.join(u)
	}
	d := &upload{path: 20 * ms, bytes: 30e3}
	d.Name = "d"
	s.run(settle)
	took := s.shorts(d, time.Second, rand.New(rand.NewPCG(seed, 0)))
	queue, before, dropped := s.queue(), s.access.carried, s.access.dropped
	s.run(long)
	slices.Sort(*took)
	return thesis{
		float64(s.access.carried-before) / long.Seconds() / (4 * mbit), queue(), (*took)[len(*took)/2], len(*took), s.access.dropped - dropped,
	}
}

// Short files find a queue of few segments, and the link is used all the same.
func TestShortTransfersFindAShortQueue(t *testing.T) {
	for seed := range uint64(4) {
		got := shortBesideLong(t, window.Groupcast, seed, 20*second, 100*second)
		t.Logf("%.3f of the link are used, the queue is %.1f KB, %d files take %.3f s", got.used, got.queue/1e3, got.files, got.took)
		if got.used < .925 || got.queue > 13e3 || got.took > .175 || got.dropped > 0 {
			t.Errorf("%+v", got)
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
