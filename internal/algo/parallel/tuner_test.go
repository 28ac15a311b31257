package parallel_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/parallel"
)

const (
	mbit    = 1e6 / 8
	segment = 1448
)

// path is a model of what lies between two neighbours.
type path struct {
	rate       float64       // of the bottleneck, in bytes per second
	rtt        time.Duration // without a queue
	window     float64       // bytes that a connection's buffers hold; zero means enough
	loss       float64       // at random
	queue      time.Duration // how long the bottleneck's queue can become
	neighbours int           // other connections, all alike, that want all they can get
	refill     time.Duration // the time in which they fill the queue again with what they are left
}

// each returns what one connection would carry if there were no others: a window in each round
// trip, or what loss leaves of that (Mathis).
func (p path) each() float64 {
	rate := math.Inf(1)
	if p.window > 0 {
		rate = p.window / p.rtt.Seconds()
	}
	if p.loss > 0 {
		rate = min(rate, segment/p.rtt.Seconds()*1.22/math.Sqrt(p.loss))
	}
	return rate
}

// carries returns what so many stripes carry together. If connections want more than there is, they share it, and fill the queue.
func (p path) carries(stripes int) (rate float64, rtt time.Duration, loss float64) {
	wanted := p.each() * float64(stripes)
	all := p.each() * float64(stripes+p.neighbours)
	if all <= p.rate {
		return wanted, p.rtt, p.loss
	}
	return p.rate * float64(stripes) / float64(stripes+p.neighbours), p.rtt + p.queue, p.loss + 0.001*float64(stripes)
}

// ride is a link on a path, with a clock of its own.
type ride struct {
	testing.TB
	*parallel.Tuner
	path
	facts   parallel.Facts
	sent    float64
	lost    float64
	busy    float64
	changes int
	fewer   time.Time // when they became fewer last
	most    int
	told    []string
}

func upTo(most int) parallel.Bounds { return parallel.Bounds{Most: most} }

func begin(t testing.TB, p path, earlier int) *ride {
	r := &ride{TB: t, Tuner: parallel.New(p.rtt, earlier, upTo(parallel.Most)), path: p, busy: 1}
	r.facts.At, r.facts.LeastRTT = time.Unix(1e9, 0), p.rtt
	return r
}

// on lets the ride go on for a while.
func (r *ride) on(span time.Duration) *ride {
	const tick = 100 * time.Millisecond
	for range int(span / tick) {
		rate, rtt, loss := r.carries(r.Choice().Stripes)
		if r.facts.At.Before(r.fewer.Add(r.refill)) {
			rtt = r.rtt
		}
		bytes := rate * tick.Seconds() * r.busy
		r.facts.At, r.facts.RTT = r.facts.At.Add(tick), rtt
		r.facts.Delivered += uint64(bytes)
		r.sent += bytes / segment
		r.lost += bytes / segment * loss
		r.facts.Sent, r.facts.Lost = uint64(r.sent), uint64(r.lost)
		r.facts.Busy += time.Duration(r.busy * float64(tick))
		before := r.Choice().Stripes
		if r.Step(r.facts) {
			r.told = append(r.told, r.Choice().Explain())
		}
		if r.Choice().Stripes != before {
			r.changes++
		}
		if r.Choice().Stripes < before {
			r.fewer = r.facts.At
		}
		r.most = max(r.most, r.Choice().Stripes)
	}
	return r
}

func (r *ride) rate() float64 { rate, _, _ := r.carries(r.Choice().Stripes); return rate }

func (r *ride) wantShare(least float64) {
	r.Helper()
	var best float64
	for n := 1; n <= parallel.Most; n++ {
		rate, _, _ := r.carries(n)
		best = max(best, rate)
	}
	if got := r.rate() / best; got < least {
		r.Errorf("%d stripes carry %.2f of the best, want %.2f:\n%s", r.Choice().Stripes, got, least, strings.Join(r.told, "\n"))
	}
}

func (r *ride) wantStripes(least, most int) {
	r.Helper()
	if n := r.Choice().Stripes; n < least || n > most {
		r.Errorf("%d stripes, want %d to %d:\n%s", n, least, most, strings.Join(r.told, "\n"))
	}
}

// "Multiple sockets may be used to get a better use of the bandwidth capacity, often
// yielding linear speedup." (002 §3.2, table 2: 8 KB, up to 9 connections)
func TestBuffersHoldOneConnectionBack(t *testing.T) {
	r := begin(t, path{rate: 20 * mbit, rtt: 28 * time.Millisecond, window: 8 << 10, queue: 20 * time.Millisecond}, 0)
	r.on(30 * time.Second)
	r.wantStripes(8, parallel.Most)
	r.wantShare(0.95)
}

// Loss on a long path leaves a connection a part of it.
func TestLossHoldsOneConnectionBack(t *testing.T) {
	r := begin(t, path{rate: 20 * mbit, rtt: 28 * time.Millisecond, loss: 0.005, queue: 20 * time.Millisecond}, 0)
	r.on(30 * time.Second)
	r.wantStripes(3, 5)
	r.wantShare(0.95)
}

// Finding out for the first time that fewer stripes carry far less costs half a second of carrying less.
func TestFarTooFewDoNotLast(t *testing.T) {
	r := begin(t, path{rate: 20 * mbit, rtt: 30 * time.Millisecond, loss: 0.0014, queue: 20 * time.Millisecond}, 0)
	for r.Choice().Stripes == 1 && r.changes == 0 {
		r.on(100 * time.Millisecond) // this is how it begins
	}
	var tried time.Duration
	for range 400 {
		r.on(100 * time.Millisecond)
		if r.Choice().Stripes == 1 {
			tried += 100 * time.Millisecond
		} else if tried > 0 {
			break
		}
	}
	if tried == 0 || tried > 500*time.Millisecond {
		t.Errorf("one stripe, that carries %.2f of two, was tried for %v:\n%s", r.each()/r.path.rate, tried, strings.Join(r.told, "\n"))
	}
}

// "Interferences among concurrent socket connections […] have adverse impact" (002 §3.2): where one
// connection fills the path, there is one.
func TestMoreStripesHelpNothing(t *testing.T) {
	r := begin(t, path{rate: 20 * mbit, rtt: 100 * time.Millisecond, queue: 100 * time.Millisecond}, 0)
	r.on(60 * time.Second)
	r.wantStripes(1, 1)
	r.wantShare(0.95)
}

// If no queue stands although the path is full, more stripes are tried, and given up.
func TestWhatIsNoGainIsNotKept(t *testing.T) {
	r := begin(t, path{rate: 20 * mbit, rtt: 15 * time.Millisecond}, 0)
	r.on(5 * time.Minute)
	if r.most > 4 { // what it loses without a queue suggests three
		t.Errorf("up to %d stripes, though they carry no more than one", r.most)
	}
	r.wantStripes(1, 2)
	if r.changes > 30 {
		t.Errorf("%d changes in five minutes: it does not rest", r.changes)
	}
}

// If others fill a path, the link takes its share of it as one connection among them.
func TestNeighboursAreNotHurt(t *testing.T) {
	p := path{rate: 20 * mbit, rtt: 60 * time.Millisecond, queue: 50 * time.Millisecond, neighbours: 4}
	r := begin(t, p, 0).on(60 * time.Second)
	r.wantStripes(1, 1)
	r.neighbours = 0
	r.loss = 0.01
	r.on(2 * time.Minute) // they have gone, and the path has got bad
	r.wantShare(0.9)
}

// A neighbour that is slow to take what it is left gets it in the end.
func TestSlowNeighboursAreNotHurt(t *testing.T) {
	p := path{rate: 20 * mbit, rtt: 30 * time.Millisecond, queue: 30 * time.Millisecond, neighbours: 1, refill: 2 * time.Second}
	begin(t, p, 0).on(3*time.Minute).wantStripes(1, 1)
}

func TestShortPathsHaveOneStripe(t *testing.T) {
	r := begin(t, path{rate: 10000 * mbit, rtt: 300 * time.Microsecond, loss: 0.0001}, 0)
	r.on(time.Minute)
	if r.most != 1 || r.changes != 0 {
		t.Errorf("up to %d stripes in %d changes", r.most, r.changes)
	}
}

// A busy neighbour answers late, but that does not make a path long.
func TestPathIsAsShortAsItsLeastRoundTrip(t *testing.T) {
	r := begin(t, path{rate: 10000 * mbit, rtt: 300 * time.Microsecond}, 0)
	r.Tuner = parallel.New(40*time.Millisecond, 0, upTo(parallel.Most))
	if r.on(100 * time.Millisecond); !r.Choice().Alone() || r.Choice().Piece < 1<<20 {
		t.Errorf("%s; pieces of %d", r.Choice().Explain(), r.Choice().Piece)
	}
}

// If the number of stripes is fixed, or several are asked for on a short path, the number stays. The pieces follow the
// rate as they do elsewhere.
func TestPiecesFollowTheRateOfStripesThatStay(t *testing.T) {
	for _, tt := range []struct {
		bounds parallel.Bounds
		rtt    time.Duration
		want   int
	}{
		{parallel.Bounds{Least: 2, Most: 16}, 100 * time.Microsecond, 2},
		{parallel.Bounds{Least: 4, Most: 4}, 100 * time.Microsecond, 4},
		{parallel.Bounds{Least: 4, Most: 4}, 50 * time.Millisecond, 4},
	} {
		r := begin(t, path{rate: 8000 * mbit, rtt: tt.rtt}, 0)
		r.Tuner = parallel.New(tt.rtt, 0, tt.bounds)
		if r.on(time.Second); r.Choice().Stripes != tt.want || r.Choice().Piece < 1<<20 {
			t.Errorf("%+v over %v: %d stripes, pieces of %d", tt.bounds, tt.rtt, r.Choice().Stripes, r.Choice().Piece)
		}
	}
}

// Pieces are small until something is known, and follow the rate from then on, whether or not there is always something
// to send.
func TestPiecesFollowTheRate(t *testing.T) {
	for _, busy := range []float64{1, 0.3} {
		r := begin(t, path{rate: 400 * mbit, rtt: 28 * time.Millisecond}, 0)
		r.busy = busy
		want := func(what string, least, most uint64) {
			t.Helper()
			if got := r.Choice().Piece * uint64(r.Choice().Stripes); got < least || got > most {
				t.Errorf("busy for %.1f, %s: pieces of %d, want %d to %d", busy, what, got, least, most)
			}
		}
		want("nothing is known", 1, 16<<10)
		r.on(200 * time.Millisecond)
		inTime := uint64(busy * 400 * mbit / 50) // of 20 ms
		want("it has begun", inTime*9/10, inTime*11/10)
		r.path.rate /= 2
		r.on(5 * time.Second)
		want("it became slower", inTime*9/20, inTime*11/20)
	}
}

// A link begins with one stripe, or with as many as an earlier link ended with.
func TestBeginning(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 28 * time.Millisecond, time.Second} {
		if got := parallel.New(rtt, 0, upTo(parallel.Most)).Choice().Stripes; got != 1 {
			t.Errorf("%v: %d stripes to begin with, want 1", rtt, got)
		}
	}
	if got := parallel.New(100*time.Millisecond, 13, upTo(parallel.Most)).Choice(); got.Stripes != 13 || got.Reason != parallel.Known {
		t.Errorf("%d stripes, %s; an earlier link ended with 13", got.Stripes, got.Reason)
	}
}

// lose makes the path lose something 100 ms later, at a given round trip.
func (r *ride) lose(rtt time.Duration) {
	r.facts.At, r.facts.RTT, r.facts.Busy = r.facts.At.Add(100*time.Millisecond), rtt, r.facts.Busy+100*time.Millisecond
	r.facts.Sent, r.facts.Lost = r.facts.Sent+1000, r.facts.Lost+5
	r.Step(r.facts)
}

// What is lost without a queue is lost by the path itself: there are at once as many stripes as the round trip suggests.
func TestLossyPathsHaveManyAtOnce(t *testing.T) {
	for rtt, want := range map[time.Duration]int{
		time.Millisecond: 1, 12 * time.Millisecond: 3, 28 * time.Millisecond: 5, 100 * time.Millisecond: 8, time.Second: 8,
	} {
		r := begin(t, path{rtt: rtt}, 0)
		if r.lose(rtt); r.Choice().Stripes != want {
			t.Errorf("%v: %s, want %d", rtt, r.Choice().Explain(), want)
		}
	}
	r := begin(t, path{rtt: 100 * time.Millisecond}, 0)
	r.Limit(3, r.facts.At)
	if r.lose(r.rtt); r.Choice().Stripes != 3 {
		t.Errorf("%s where the neighbour takes 3", r.Choice().Explain())
	}
}

// A connection that starts fills a short queue, and loses what does not fit. What is sent again until that is over was
// lost there, and does not mean that the path loses by itself.
func TestFullQueueIsNoLossyPath(t *testing.T) {
	const rtt = 200 * time.Millisecond
	r := begin(t, path{rtt: rtt}, 0)
	r.lose(224 * time.Millisecond) // 40 packets of 20 Mbit/s wait
	for range 9 {
		r.lose(203 * time.Millisecond)
	}
	r.wantStripes(1, 1)
	r.facts.At, r.facts.Busy = r.facts.At.Add(time.Second), r.facts.Busy+time.Second
	r.lose(203 * time.Millisecond) // long after
	r.wantStripes(8, 8)
}

// Stripes that a path needs as it loses packets fill its queue as they start: that is no reason to have fewer at once.
func TestStartOfManyIsNoReasonForFewer(t *testing.T) {
	r := begin(t, path{rate: 20 * mbit, rtt: 28 * time.Millisecond, loss: 0.005, queue: 20 * time.Millisecond}, 0)
	r.on(5 * time.Second)
	r.wantStripes(5, 5)
	r.on(5 * time.Second)
	r.wantStripes(4, 4)
	r.on(20 * time.Second)
	r.wantStripes(3, 3)
}

// If a link's source is slow, nothing can be learnt of the link.
func TestNothingIsTriedWithoutWork(t *testing.T) {
	r := begin(t, path{rate: 20 * mbit, rtt: 28 * time.Millisecond, loss: 0.005}, 0)
	r.busy = 0.3
	if r.on(time.Minute); r.changes != 0 {
		t.Errorf("changed %d times: %s", r.changes, strings.Join(r.told, "\n"))
	}
}

// A path that comes and goes does not make the number come and go with it.
func TestOscillatingPath(t *testing.T) {
	good := path{rate: 20 * mbit, rtt: 50 * time.Millisecond, loss: 0.005, queue: 20 * time.Millisecond}
	bad := good
	bad.rate, bad.loss = mbit, 0.05
	r := begin(t, good, 0)
	for range 30 {
		r.path = good
		r.on(4 * time.Second)
		r.path = bad
		r.on(4 * time.Second)
	}
	if r.changes > 100 {
		t.Errorf("%d changes while it came and went 30 times", r.changes)
	}
	r.path = good
	r.on(time.Minute)
	r.wantShare(0.85)
}

// On any path the number is within its bounds, and in the end never carries noticeably less than one connection would.
func TestNeverLosesToOneConnection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := path{
			rate:       rapid.Float64Range(1, 1000).Draw(t, "Mbit/s") * mbit,
			rtt:        time.Duration(rapid.IntRange(1, 300).Draw(t, "ms")) * time.Millisecond,
			loss:       rapid.Float64Range(0, 0.03).Draw(t, "loss"),
			window:     rapid.Float64Range(0, 1<<20).Draw(t, "window"),
			queue:      time.Duration(rapid.IntRange(0, 200).Draw(t, "queue")) * time.Millisecond,
			neighbours: rapid.IntRange(0, 8).Draw(t, "neighbours"),
		}
		r := &ride{Tuner: parallel.New(p.rtt, 0, upTo(parallel.Most)), path: p, busy: 1}
		r.facts.At, r.facts.LeastRTT = time.Unix(1e9, 0), p.rtt
		for range 120 {
			r.on(time.Second)
			if n := r.Choice().Stripes; n < 1 || n > parallel.Most {
				t.Fatalf("%d stripes", n)
			}
			if c := r.Choice(); c.Piece < 16<<10 || c.Piece > 1<<20 {
				t.Fatalf("pieces of %d bytes", c.Piece)
			}
		}
		one, _, _ := p.carries(1)
		if r.rate() < 0.9*one {
			t.Fatalf("%d stripes carry %.0f, one %.0f", r.Choice().Stripes, r.rate(), one)
		}
	})
}

// "If the buffers are too small the TCP congestion window will never fully open, and if they
// are too large the sender can overrun the receiver" (002 §3.2): twice what is under way.
func TestBuffersHoldTwiceWhatIsUnderWay(t *testing.T) {
	r := begin(t, path{rate: 100 * mbit, rtt: 40 * time.Millisecond, loss: 0.0001}, 1)
	r.on(1500 * time.Millisecond)
	rate, rtt, _ := r.carries(1)
	want := 2 * rate * rtt.Seconds()
	if got := float64(parallel.New(p40, 1, upTo(1)).Choice().Buffer); got != 0 {
		t.Errorf("%.0f before anything is known", got)
	}
	if got := float64(r.Choice().Buffer) * float64(r.Choice().Stripes); math.Abs(got-want) > want/10 {
		t.Errorf("buffers of %.0f bytes, want %.0f", got, want)
	}
}

const p40 = 40 * time.Millisecond

func ExampleChoice_Explain() {
	p := path{rate: 20 * mbit, rtt: 28 * time.Millisecond, loss: 0.005, queue: 20 * time.Millisecond}
	r := begin(nil, p, 0)
	fmt.Println(r.Choice().Explain())
	for _, sentence := range r.on(26 * time.Second).told {
		fmt.Println(sentence)
	}
	// Output:
	// 1 stripe to begin with: the round trip is 28ms
	// 5 stripes for a round trip of 28ms: the path loses (0.41 %) though no queue stands
	// 4 stripes to see whether it is as fast as 5: 20.0 Mbit/s, round trip 48ms (at least 28ms), 1.08 % lost
	// 4 stripes: with 5 it was no faster: 20.0 Mbit/s, round trip 48ms (at least 28ms), 1.08 % lost; now it is 20.0 Mbit/s, round trip 48ms (at least 28ms), 0.91 % lost
	// 3 stripes to see whether it is as fast as 4: 20.0 Mbit/s, round trip 48ms (at least 28ms), 0.91 % lost
	// 3 stripes: with 4 it was no faster: 20.0 Mbit/s, round trip 48ms (at least 28ms), 0.91 % lost; now it is 20.0 Mbit/s, round trip 48ms (at least 28ms), 0.83 % lost
	// 2 stripes to see whether it is as fast as 3: 20.0 Mbit/s, round trip 48ms (at least 28ms), 0.74 % lost
	// 3 stripes: with 2 it was 14.3 Mbit/s, round trip 28ms (at least 28ms), 0.61 % lost; before it was 20.0 Mbit/s, round trip 48ms (at least 28ms), 0.74 % lost
	// 2 stripes to see whether it is as fast as 3: 20.0 Mbit/s, round trip 48ms (at least 28ms), 0.83 % lost
}

// If a neighbour takes only some stripes it is asked for no more, even if more would carry more.
func TestNoMoreThanTheNeighbourTakes(t *testing.T) {
	r := begin(t, path{rate: 50 * mbit, rtt: 100 * time.Millisecond, loss: 0.005}, 0)
	if most := r.on(3 * time.Second).Choice().Stripes; most <= 3 {
		t.Fatalf("it has %d: nothing would be shown", most)
	}
	if !r.Limit(3, r.facts.At) || r.Limit(3, r.facts.At) {
		t.Error("that it has three now is not said once")
	}
	if choice := r.Choice(); choice.Stripes != 3 || choice.Reason != parallel.Limited {
		t.Errorf("it has %s", choice.Explain())
	}
	for range 60 {
		if n := r.on(time.Second).Choice().Stripes; n > 3 {
			t.Fatalf("it has %d", n)
		}
	}
	if n := r.Choice().Stripes; n < 2 {
		t.Errorf("it has %d in the end, where each carries as much as the first", n)
	}
	r.Limit(parallel.Most, r.facts.At)
	if most := r.on(time.Minute).Choice().Stripes; most <= 3 {
		t.Errorf("it has %d when the neighbour takes more", most)
	}
}
