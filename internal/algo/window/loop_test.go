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

// six returns the clients of 003's model 1: three of high priority with a target of 1.0 Mbit/s,
// three with .5 (Table I), over round trips of 20 to 120 ms.
func six(s *site, cubic bool) []*upload { return sixTimes(1, s, cubic) }

// sixTimes returns the same with more of everything, as .25 Mbit/s would be less than three segments
// per round trip.
func sixTimes(factor window.Rate, s *site, cubic bool) []*upload {
	var all []*upload
	for i := range 6 {
		all = append(all, s.join(terminal(factor, i, cubic)))
	}
	return all
}

func terminal(factor window.Rate, i int, cubic bool) *upload {
	u := &upload{path: time.Duration(20*(i+1)) * ms, cubic: cubic}
	u.Name, u.Target, u.Minimum = fmt.Sprint("terminal ", i), .5*mbit*factor, .25*mbit*factor
	if i%2 == 0 {
		u.Target, u.Minimum, u.Priority = 1*mbit*factor, .5*mbit*factor, 1
	}
	return u
}

func (s *site) greedy(n int) {
	for i := range n {
		s.interfere(time.Duration(30+20*i)*ms, true)
	}
}

func tell(t *testing.T, all []*upload, from, to time.Duration) (sum float64) {
	t.Helper()
	for _, u := range all {
		mean := u.mean(from, to)
		sum += mean
		t.Logf("%s over %v for %.2f: %.3f Mbit/s, at worst %.3f over 10 s; %d connections", u.Name, u.path, float64(u.Target)/mbit,
			mean/mbit, u.worst(min(10*second, to-from), from, to)/mbit, len(u.flows))
	}
	return sum
}

// wantTargets makes sure that targets are met over any span.
func wantTargets(t *testing.T, all []*upload, share float64, span, from, to time.Duration) {
	t.Helper()
	least := math.Inf(1)
	for _, u := range all {
		got := u.worst(span, from, to)
		least = min(least, got/float64(u.Target))
		if got < share*float64(u.Target) {
			t.Errorf("%s: %.3f Mbit/s over %v, for a target of %.3f", u.Name, got/mbit, span, float64(u.Target)/mbit)
		}
	}
	t.Logf("at worst %.3f of a target over %v", least, span)
}

// goodput is the part of a link that segments have.
const goodput = float64(payload) / wire

func TestSurplusIsUsedByRatioWithoutAQueue(t *testing.T) {
	for _, cubic := range []bool{false, true} {
		plain := newSite(10*mbit, 200e3, controller(t, window.Traditional))
		six(plain, cubic)
		s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
		all := six(s, cubic)
		plain.run(10 * second)
		s.run(10 * second)
		queue, usual := s.queue(), plain.queue()
		plain.run(50 * second)
		s.run(50 * second)
		sum := tell(t, all, 10*second, 60*second)
		t.Logf("%.2f Mbit/s, queue %.0f bytes of %.0f", sum/mbit, queue(), usual())
		wantTargets(t, all, 1, second, 10*second, 60*second)
		if sum < .95*goodput*10*mbit {
			t.Errorf("%.2f Mbit/s of the link are used", sum/mbit)
		}
		if queue() > .15*usual() {
			t.Errorf("a queue of %.0f bytes; without control it is %.0f", queue(), usual())
		}
		for _, u := range all {
			part := u.mean(10*second, 60*second) / sum * 4.5 * mbit / float64(u.Target)
			if part < .85 || part > 1.15 {
				t.Errorf("%s has %.2f times its part", u.Name, part)
			}
		}
	}
}

// 003 §IV-B, figures 5 and 6: with interference, "in case of applying only receive socket buffer
// coordination function, […] Terminal 3 which is high priority client is lower than target
// throughput"; with connections besides, it "satisfies 1.0[Mbps] of the target throughput even
// after generating interference traffic".
func TestTargetsHoldAmidGreedyTraffic(t *testing.T) {
	for _, cubic := range []bool{false, true} {
		for _, name := range []string{window.Groupcast, window.Gathering, window.Buffers, window.Matsuo, window.Traditional} {
			s := newSite(10*mbit, 200e3, controller(t, name))
			all := six(s, cubic)
			s.run(20 * second)
			s.greedy(3)
			s.run(80 * second)
			met := 0
			for _, u := range all {
				if u.mean(30*second, 100*second) >= .99*float64(u.Target) {
					met++
				}
			}
			t.Logf("%s, cubic %v: %d of 6 targets", name, cubic, met)
			if name == window.Groupcast {
				tell(t, all, 30*second, 100*second)
				wantTargets(t, all, .95, 10*second, 30*second, 100*second)
			}
			if holds := name == window.Groupcast || name == window.Gathering; holds != (met == 6) {
				t.Errorf("%s meets %d of 6 targets", name, met)
			}
		}
	}
}

// 001 §4.2.4: "when the available access link bandwidth suddenly increases, our proposed scheme
// cannot catch up with the change immediately"; ours does within 5 s. 3 Mbit/s of UDP on a link
// of 4 end.
func TestBandwidthThatComesBackIsUsed(t *testing.T) {
	for _, name := range []string{window.Groupcast, window.Proposed} {
		s := newSite(4*mbit, 128e3, controller(t, name))
		var all []*upload
		for i, path := range []time.Duration{70 * ms, 90 * ms, 110 * ms} {
			u := &upload{path: path}
			u.Name, u.Target = fmt.Sprint(i), .1*mbit
			all = append(all, s.join(u))
		}
		s.run(30 * second)
		dropped := s.access.dropped
		s.access.stream(3*mbit, s.now+60*second)
		s.run(70 * second)
		if name == window.Groupcast && s.access.dropped > dropped {
			t.Errorf("%d packets were lost", s.access.dropped-dropped)
		}
		sum := 0.0
		for _, u := range all {
			sum += u.mean(95*second, 98*second)
		}
		t.Logf("%s: %.2f Mbit/s 5 s after", name, sum/mbit)
		if quick := sum >= .95*goodput*4*mbit; quick != (name == window.Groupcast) {
			t.Errorf("%s: %.2f Mbit/s 5 s after 4 are free", name, sum/mbit)
		}
	}
}

// If targets want more than there is, minimums come first, and then priority decides. Of 30 Mbit/s the
// minimums take 22.5, and clients of high priority the rest. When the link is whole again, all
// have their targets within 5 s.
func TestShortLinkGoesByPriority(t *testing.T) {
	for _, cubic := range []bool{false, true} {
		s := newSite(100*mbit, 1e6, controller(t, window.Groupcast))
		all := sixTimes(10, s, cubic)
		s.run(20 * second)
		s.access.rate = 30 * mbit / goodput
		s.run(40 * second)
		sum := tell(t, all, 30*second, 60*second)
		if sum < .95*30*mbit {
			t.Errorf("%.2f of 30 Mbit/s are used", sum/mbit)
		}
		for _, u := range all {
			want := []float64{2.5, 7.5}[u.Priority] * mbit
			if got := u.mean(30*second, 60*second); got < .85*want || got > 1.15*want {
				t.Errorf("%s: %.3f Mbit/s, want %.3f", u.Name, got/mbit, want/mbit)
			}
		}
		s.access.rate = 100 * mbit
		s.run(20 * second)
		wantTargets(t, all, .95, 3*second, 65*second, 80*second)
		for _, u := range all {
			if u.changes > 6 {
				t.Errorf("%s: %d changes of connections in %v", u.Name, u.changes, s.now)
			}
		}
	}
}

// Everybody has what it should have within 3 s of a join, a leave and a change of policy.
func TestChangesAreFollowedWithin3Seconds(t *testing.T) {
	s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
	all := six(s, true)
	s.run(20 * second)
	late := &upload{path: 50 * ms, cubic: true}
	late.Name, late.Target, late.Minimum, late.Priority = "late", 3*mbit, 1*mbit, 1
	all = append(all, s.join(late))
	s.run(10 * second)
	tell(t, all, 23*second, 30*second)
	wantTargets(t, all, .95, 3*second, 23*second, 30*second)
	all[0].leave()
	all[1].Target = 3 * mbit
	s.run(10 * second)
	tell(t, all[1:], 33*second, 40*second)
	wantTargets(t, all[1:], .95, 3*second, 33*second, 40*second)
}

func TestRoundTripsMayDifferMuch(t *testing.T) {
	s := newSite(50*mbit, 600e3, controller(t, window.Groupcast))
	var all []*upload
	for i, path := range []time.Duration{5 * ms, 20 * ms, 100 * ms, 400 * ms} {
		u := &upload{path: path}
		u.Name, u.Target = fmt.Sprint(i), 8*mbit
		all = append(all, s.join(u))
	}
	s.run(60 * second)
	tell(t, all, 20*second, 60*second)
	wantTargets(t, all, .95, 10*second, 20*second, 60*second)
}

// 001 §5.1: "the excess buffer is reassigned to other connections". One client sends .2 Mbit/s of its
// target of 2, one has a link of its own with .5, and the third has the rest.
func TestWhatIsNotUsedOthersGet(t *testing.T) {
	s := newSite(10*mbit, 100e3, controller(t, window.Groupcast))
	slow := s.join(&upload{Client: window.Client{Name: "slow", Target: 2 * mbit}, path: 40 * ms, rate: .2 * mbit})
	narrow := &pipe{world: &s.world, rate: .5 * mbit, limit: 50e3, arrive: s.access.take}
	far := s.join(&upload{Client: window.Client{Name: "far", Target: 2 * mbit}, path: 60 * ms, own: narrow})
	fast := s.join(&upload{Client: window.Client{Name: "fast", Target: 2 * mbit}, path: 80 * ms})
	s.run(40 * second)
	tell(t, []*upload{slow, far, fast}, 20*second, 40*second)
	if got := fast.mean(20*second, 40*second); got < .95*(10*goodput-.7)*mbit {
		t.Errorf("fast has %.2f Mbit/s", got/mbit)
	}
	for i, want := range []window.Bottleneck{window.AtClient, window.Elsewhere} {
		if got := s.last.Shares[i].Bottleneck; got != want {
			t.Errorf("%s is held back by %s, want %s", s.last.Shares[i].Name, got, want)
		}
	}
}

// A cap holds, however much is free.
func TestCapHolds(t *testing.T) {
	s := newSite(10*mbit, 100e3, controller(t, window.Groupcast))
	capped := s.join(&upload{Client: window.Client{Name: "capped", Target: 1 * mbit, Cap: 2 * mbit}, path: 60 * ms})
	other := s.join(&upload{Client: window.Client{Name: "other", Target: 1 * mbit}, path: 60 * ms})
	s.run(30 * second)
	tell(t, []*upload{capped, other}, 10*second, 30*second)
	if got := capped.mean(10*second, 30*second); got > 1.05*2*mbit || got < .85*2*mbit {
		t.Errorf("capped has %.2f Mbit/s", got/mbit)
	}
	if got := s.last.Shares[0].Reason; got != window.Capped {
		t.Errorf("because %s", got)
	}
}

// A client with a minimum and no target has that minimum, beside others whose targets are more than the link has.
func TestMinimumWithoutTarget(t *testing.T) {
	s := newSite(3*mbit, 128e3, controller(t, window.Groupcast))
	all := six(s, false)
	for _, u := range all {
		u.Priority = 5
	}
	humble := &upload{path: 50 * ms}
	humble.Name, humble.Minimum = "humble", .4*mbit
	s.join(humble)
	s.run(60 * second)
	got := humble.mean(20*second, 60*second)
	t.Logf("%.3f Mbit/s", got/mbit)
	if got < .9*.4*mbit {
		t.Errorf("it has %.2f Mbit/s, want 0.4", got/mbit)
	}
}

// The link's budget is shared: what this node's deliveries take is not planned again.
func TestOthersOfThisNodeAreLeftTheirs(t *testing.T) {
	s := newSite(100*mbit, 1e6, controller(t, window.Groupcast))
	s.link = window.Link{Rate: 20 * mbit, Others: 12 * mbit}
	all := six(s, true)
	s.run(30 * second)
	if sum := tell(t, all, 10*second, 30*second); sum > 1.1*8*mbit || sum < .9*8*mbit {
		t.Errorf("%.2f Mbit/s, want 8", sum/mbit)
	}
}

// What a delivery takes more is its own at once. If it takes less for a moment, three quarters of its room are kept for it in the next step,
// and then three quarters of that; after 5 s uploads have 94 % of what it leaves for good. No more than the link carries counts.
func TestRoomOfDeliveriesIsGivenAwayBitByBit(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	for i, step := range []struct{ others, left float64 }{{0, 20}, {8, 12}, {0, 14}, {0, 15.5}, {8, 12}, {4, 13}, {12, 8}, {900, 1}, {0, 5}} {
		facts := near(8, 8)
		facts.Link.Rate, facts.Link.Others = mbits(20), mbits(step.others)
		if got := b.step(facts).Available / mbit; math.Abs(float64(got)-step.left) > .01 {
			t.Errorf("step %d: beside %.0f Mbit/s there are %.2f for uploads, want %.2f", i, step.others, got, step.left)
		}
	}
	free := near(8, 8)
	free.Link.Rate = mbits(20)
	if got := b.advance(5*second, free).Available / mbit; got < 20-.06*20 {
		t.Errorf("5 s after a delivery that filled the link there are %.2f for uploads, want 94 %% of what it has left", got)
	}
}

// A delivery that has lost something amid uploads that fill the link cannot come back by itself: while their segments wait, it is left a
// tenth more than it takes, step by step, but no more than half of the link for that.
func TestDeliveryIsLeftMoreWhileAQueueStands(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	b.advance(5*second, near(8, 8)) // which tells the round trips without a queue
	for i, step := range []struct {
		queue        time.Duration
		others, left float64
	}{{0, 7, 13}, {40 * ms, 7, 20 - 7.7}, {40 * ms, 7.7, 20 - 8.47}, {40 * ms, 9.5, 10}, {40 * ms, 12, 8}, {0, 12, 8}} {
		facts := near(8, 8)
		facts.Link.Rate, facts.Link.Others = mbits(20), mbits(step.others)
		for _, client := range facts.Clients {
			for c := range client.Connections {
				client.Connections[c].RTT += step.queue
			}
		}
		if got := b.step(facts).Available / mbit; math.Abs(float64(got)-step.left) > .01 {
			t.Errorf("step %d: beside %.1f Mbit/s and %v of queue there are %.2f for uploads, want %.2f", i, step.others, step.queue, got, step.left)
		}
	}
}

// All may begin within moments, so that only the client that is first knows its round trip without a queue: it is not taken to be
// held up elsewhere.
func TestTargetsHoldAmidGreedyTrafficThatBeginsAtOnce(t *testing.T) {
	const starts = 60
	held := 0
	for seed := range uint64(starts) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newSite(10*mbit, 200<<10, controller(t, window.Groupcast))
		var all []*upload
		for i := range 6 {
			u := &upload{path: time.Duration(20+20*i) * ms, cubic: true}
			u.Name, u.Target, u.Priority = fmt.Sprint("terminal ", i), mbits(.5), 0
			if i%2 == 0 {
				u.Target, u.Priority = mbits(1), 1
			}
			all = append(all, u)
			s.within(random, 0, 400*ms, func() { s.join(u) })
		}
		for i := range 3 {
			s.within(random, 0, 400*ms, func() { s.interfere(time.Duration(30+20*i)*ms, true) })
		}
		s.run(50 * second)
		least := math.Inf(1)
		for _, u := range all {
			least = min(least, u.worst(10*second, 10*second, 50*second)/float64(u.Target))
		}
		if least >= .9 {
			held++
		}
	}
	t.Logf("of %d starts %d held nine tenths of all targets for any 10 s", starts, held)
	if held < starts*19/20 {
		t.Errorf("of %d starts %d held nine tenths of all targets for any 10 s", starts, held)
	}
}

// Clients with greedy connections on their way, as on 003's model 2, have their targets as well: a queue that others fill is not
// taken for a path that has become slower, except in a few of many networks.
func TestTargetsHoldAmidGreedyTrafficOnTheWayOfSome(t *testing.T) {
	const starts = 60
	held := 0
	for seed := range uint64(starts) {
		random := rand.New(rand.NewPCG(seed, 7))
		s := newSite(8*mbit, 75e3, controller(t, window.Groupcast))
		var routers [2]*pipe
		for i := range routers {
			routers[i] = &pipe{world: &s.world, rate: 5 * mbit, limit: 75e3, arrive: s.access.take}
		}
		foreign := make(map[*flow]bool)
		routers[1].arrive = func(one packet) {
			if foreign[one.flow] { // it ends behind the router
				one.flow.receive(one)
				return
			}
			s.access.take(one)
		}
		var all []*upload
		for i, high := range []bool{true, false, true, true, false, false} {
			u := &upload{path: time.Duration(40+8*i) * ms, own: routers[i/3]}
			u.Name, u.Target, u.Minimum = fmt.Sprint("terminal ", i), mbits(.5), mbits(.25)
			if high {
				u.Target, u.Minimum, u.Priority = mbits(1), mbits(.5), 1
			}
			all = append(all, u)
			s.within(random, 0, 300*ms, func() { s.join(u) })
		}
		for i := range 3 {
			s.within(random, 10*second, 300*ms, func() {
				f := newFlow(&s.world, routers[1], time.Duration(30+10*i)*ms, func() uint64 { return math.MaxUint64 / 2 / payload })
				foreign[f] = true
				f.start()
			})
		}
		s.run(50 * second)
		if !slices.ContainsFunc(all, func(u *upload) bool { return u.mean(15*second, 50*second) < .9*float64(u.Target) }) {
			held++
		}
	}
	t.Logf("of %d starts %d held nine tenths of all targets", starts, held)
	if held < starts*9/10 {
		t.Errorf("of %d starts %d held nine tenths of all targets", starts, held)
	}
}

// Others may be there first, with a queue that hardly ever goes: a client that joins while it stands takes it to be a part of its
// path, and sees less of it than there is. Every client has its target all the same, however it begins; and when the others
// have gone, the link is used without their queue.
func TestTargetsHoldAmidGreedyTrafficOfBefore(t *testing.T) {
	const starts = 48
	held, short := 0, 0
	for seed := range uint64(starts) {
		s, all := amidGreedyTraffic(t, seed)
		s.run(80*second - s.now)
		least := math.Inf(1)
		for _, u := range all {
			least = min(least, u.worst(10*second, 20*second, 80*second)/float64(u.Target))
			if mean := u.mean(20*second, 80*second); mean < .98*float64(u.Target) {
				t.Errorf("start %d: %s has %.3f Mbit/s", seed, u.Name, mean/mbit)
			}
		}
		if least > .95 {
			held++
		}
		s.leave()
		s.run(6 * second)
		queue := s.queue()
		s.run(20 * second)
		if queue() < 40e3 {
			short++
		}
		if used := rate(all, 86*second, 106*second); used < .85*goodput*10*mbit {
			t.Errorf("start %d: %.2f Mbit/s of the link are used when the others have gone", seed, used/mbit)
		}
	}
	t.Logf("of %d starts %d held all targets for any 10 s, %d a short queue after the others", starts, held, short)
	if held < starts*9/10 || short < starts*3/4 {
		t.Errorf("of %d starts %d held all targets for any 10 s, %d a short queue after the others", starts, held, short)
	}
}

// Clients that have little beside others look like clients on a narrow link, most of all if the others came first, and round trips were
// learnt with their queue. That the link is narrow is not believed for good.
func TestNobodyIsTakenToBeSlowForGood(t *testing.T) {
	for _, seed := range []uint64{61, 165, 177, 250, 355, 399} {
		s, all := amidGreedyTraffic(t, seed)
		s.run(80*second - s.now)
		for _, u := range all {
			if mean := u.mean(50*second, 80*second); mean < .9*float64(u.Target) {
				t.Errorf("start %d: %s has %.3f Mbit/s of %.3f", seed, u.Name, mean/mbit, float64(u.Target)/mbit)
			}
		}
	}
}

// amidGreedyTraffic has six clients come, at random, to a link that three transfers fill, which nobody controls.
func amidGreedyTraffic(t *testing.T, seed uint64) (*site, []*upload) {
	random := rand.New(rand.NewPCG(seed, 3))
	s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
	s.greedy(3)
	s.run(time.Duration(random.IntN(2000)) * ms)
	var all []*upload
	for i := range 6 {
		all = append(all, s.join(terminal(1, i, seed%2 == 0)))
		s.run(time.Duration(random.IntN([]int{1, 100, 500, 2000}[seed%4])) * ms)
	}
	return s, all
}

// within has something happen after some time, at random within so long after that.
func (s *site) within(random *rand.Rand, after, long time.Duration, do func()) {
	s.after(after+time.Duration(random.Int64N(int64(long))), do)
}

// rate returns what clients have together between two times.
func rate(all []*upload, from, to time.Duration) (sum float64) {
	for _, u := range all {
		sum += u.mean(from, to)
	}
	return sum
}

// leave ends what greedy began.
func (s *site) leave() {
	for _, f := range s.foreign {
		f.closed = true
	}
}
