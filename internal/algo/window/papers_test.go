package window_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// 001 §4.2.1: beside long uploads, files of 30 KB take less time with the thesis's method and with both that it compares itself with than with
// TCP as it is; the thesis's has a shorter queue than all of these. What the thesis leaves open is chosen by these figures (docs/steps.md).
func TestThesisMethodsBesideShortTransfers(t *testing.T) {
	const seeds = 8
	means := make(map[string]thesis)
	for _, name := range []string{window.Traditional, window.Proposed, window.Spring, window.Mehra} {
		mean, least := thesis{}, 1.
		for seed := range uint64(seeds) {
			got := shortBesideLong(t, name, seed, 100*second, 200*second)
			mean.used, mean.queue, mean.took = mean.used+got.used/seeds, mean.queue+got.queue/seeds, mean.took+got.took/seeds
			mean.dropped += got.dropped
			least = min(least, got.used)
		}
		t.Logf("%s: %.3f of the link are used (%.3f at worst), the queue is %.1f KB, files take %.3f s, %d packets are lost", name, mean.used, least, mean.queue/1e3, mean.took, mean.dropped)
		means[name] = mean
	}
	for name, got := range means {
		if name != window.Traditional && got.took >= means[window.Traditional].took || name != window.Proposed && got.queue <= means[window.Proposed].queue {
			t.Errorf("%s: %+v; traditional: %+v; proposed: %+v", name, got, means[window.Traditional], means[window.Proposed])
		}
	}
}

// 001 §4.2.4, figure 12(c): when 3 of 4 Mbit/s are free again, the thesis's method takes 150 s to use them.
func TestThesisMethodsUseWhatComesBack(t *testing.T) {
	const starts = 8
	for _, name := range []string{window.Proposed, window.Mehra} {
		var took []time.Duration
		dropped := 0
		for seed := range uint64(starts) {
			random := rand.New(rand.NewPCG(seed, 12))
			s := newSite(4*mbit, 128e3, controller(t, name))
			var all []*upload
			for i, path := range []time.Duration{70 * ms, 90 * ms, 110 * ms} {
				u := &upload{path: path}
				u.Name = fmt.Sprint(i)
				s.within(random, 0, 5*second, func() { all = append(all, s.join(u)) })
			}
			s.run(50 * second)
			s.access.stream(3*mbit, s.now+100*second)
			s.run(100 * second)
			before, free := s.access.dropped, s.now
			for s.run(5 * second); s.now < free+300*second && rate(all, s.now-5*second, s.now) < .95*goodput*4*mbit; {
				s.run(second)
			}
			took = append(took, s.now-free)
			s.run(100 * second)
			dropped += s.access.dropped - before
		}
		slices.Sort(took)
		t.Logf("%s: used after %v, and %v to %v; %d packets are lost", name, took[starts/2], took[0], took[starts-1], dropped)
		if slow := took[starts/2] > 60*second; slow != (name == window.Proposed) {
			t.Errorf("%s: used after %v", name, took)
		}
	}
}

// 003 §IV-B, figures 5 and 6, with beginnings at random: buffers and connections together meet more targets amid greedy traffic than buffers
// alone, and than the method that the paper compares itself with.
func TestGatheringMeetsMoreTargetsAmidGreedyTraffic(t *testing.T) {
	const starts = 24
	met := make(map[string]int)
	for _, name := range []string{window.Gathering, window.Buffers, window.Matsuo} {
		worst, connections := math.Inf(1), 0
		for seed := range uint64(starts) {
			random := rand.New(rand.NewPCG(seed, 11))
			s := newSite(10*mbit, 200e3, controller(t, name))
			var all []*upload
			for i := range 6 {
				s.within(random, 0, 2*second, func() { all = append(all, s.join(terminal(1, i, seed%2 == 0))) })
			}
			s.run(20 * second)
			for i := range 3 {
				s.within(random, 0, 2*second, func() { s.interfere(time.Duration(30+20*i)*ms, true) })
			}
			s.run(60 * second)
			for _, u := range all {
				share := u.mean(30*second, 80*second) / float64(u.Target)
				worst = min(worst, share)
				connections += len(u.flows)
				if share >= .99 {
					met[name]++
				}
			}
		}
		t.Logf("%s: %d of %d targets met, the worst client has %.2f of its own; %.1f connections each", name, met[name], 6*starts, worst, float64(connections)/6/starts)
	}
	if met[window.Gathering] <= max(met[window.Buffers], met[window.Matsuo]) {
		t.Errorf("targets met: %v", met)
	}
}
