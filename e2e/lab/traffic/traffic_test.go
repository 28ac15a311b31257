package traffic_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	packetSize  = 1500
	segmentSize = 1448 // what IPv4, TCP and its timestamps leave
)

func pair(t *testing.T, shape link.Shape) (*lab.Link, *lab.Host, *lab.Host) {
	t.Helper()
	l := labtest.New(t, 1)
	a, b := l.Host("a"), l.Host("b")
	wire := l.Link(a, b, shape)
	labtest.Start(t, l)
	return wire, a, b
}

func serve(t *testing.T, host *lab.Host, congestion string) *traffic.Source {
	t.Helper()
	source, err := traffic.Serve(host, 80, congestion)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

// goodput returns the best of a few steady seconds of one bulk download: other load on the machine can only reduce it.
func goodput(t *testing.T, source *traffic.Source, to *lab.Host, enough link.Rate) link.Rate {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	bulk := traffic.Bulk{Source: source, To: to}
	var running sync.WaitGroup
	running.Go(func() {
		if err := bulk.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	var best link.Rate
	bulk.Goodput(ctx, 1500*time.Millisecond) // slow start
	for try := range 4 {
		rate, _ := bulk.Goodput(ctx, 2*time.Second)
		t.Logf("try %d: %v", try+1, rate)
		if best = max(best, rate); best >= enough {
			break
		}
	}
	return best
}

func TestGoodputIsRateTimesSegmentOverPacket(t *testing.T) {
	for _, congestion := range []string{"reno", "cubic", "bbr"} {
		t.Run(congestion, func(t *testing.T) {
			shape := link.Shape{Rate: 20 * link.Mbit, Delay: 10 * time.Millisecond, Queue: link.Packets(200)}
			_, a, b := pair(t, shape)
			want := shape.Rate * segmentSize / packetSize
			got := goodput(t, serve(t, a, congestion), b, want*98/100)
			if ratio := float64(got) / float64(want); ratio < 0.98 || ratio > 1.02 {
				t.Errorf("goodput %v is %.3f of %v", got, ratio, want)
			}
		})
	}
}

func TestOneLinkCarries200Mbit(t *testing.T) {
	shape := link.Shape{Rate: 200 * link.Mbit, Delay: 2 * time.Millisecond, Queue: link.Packets(500)}
	wire, a, b := pair(t, shape)
	want := shape.Rate * segmentSize / packetSize
	got := goodput(t, serve(t, a, "cubic"), b, want*98/100)
	late := wire.From(a).Lateness()
	t.Logf("99 %% of the packets within %v of their time, worst %v", late.Within(0.99), late.Worst())
	if float64(got) < 0.98*float64(want) {
		t.Errorf("goodput %v, want 98 %% of %v", got, want)
	}
}

func TestTwentyLinksCarry10MbitAtOnce(t *testing.T) {
	const links = 20
	shape := link.Shape{Rate: 10 * link.Mbit, Delay: 5 * time.Millisecond, Queue: link.Packets(200)}
	l := labtest.New(t, 1)
	sender := l.Host("sender")
	receivers := l.Hosts("receiver", links)
	for _, receiver := range receivers {
		l.Link(sender, receiver, shape)
	}
	labtest.Start(t, l)
	source := serve(t, sender, "cubic")
	want := shape.Rate * segmentSize / packetSize
	rates := make([]link.Rate, links)
	var group sync.WaitGroup
	for i, receiver := range receivers {
		group.Go(func() { rates[i] = goodput(t, source, receiver, want*98/100) })
	}
	group.Wait()
	if slowest := slices.Min(rates); float64(slowest) < 0.98*float64(want) {
		t.Errorf("slowest of %d links %v, want 98 %% of %v", links, slowest, want)
	}
}

func TestPlainLinkCarriesMTUSizedPacketsIfTold(t *testing.T) {
	meanFrame := func(prepare func(*lab.Link)) float64 {
		l := labtest.New(t, 1)
		a, b := l.Host("a"), l.Host("b")
		wire := l.Link(a, b, link.Shape{})
		prepare(wire)
		labtest.Start(t, l)
		var received atomic.Int64
		if _, err := serve(t, a, "cubic").Fetch(context.Background(), b, 20*link.MiB, &received); err != nil {
			t.Fatal(err)
		}
		carried := wire.From(a).Read().Count.Carried
		return float64(carried.Bytes) / float64(carried.Packets)
	}
	const frame = packetSize + float64(link.EthernetFrames)
	if got := meanFrame(func(*lab.Link) {}); got < 2*frame {
		t.Errorf("mean frame of a plain link %.0f bytes: it is not at the kernel's full speed", got)
	}
	if got := meanFrame(func(wire *lab.Link) { wire.MTUSized() }); got > frame || got < 0.9*frame {
		t.Errorf("mean frame of an MTU-sized link %.0f bytes, want at most %.0f", got, frame)
	}
}

func TestPushCarriesWhatIsOffered(t *testing.T) {
	_, a, b := pair(t, link.Shape{Rate: 50 * link.Mbit, Delay: time.Millisecond})
	push := traffic.Push{From: a, To: b, Port: 80, Congestion: "reno"}
	if err := push.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer push.Close()
	push.Offer(300_000)
	push.Offer(200_000)
	for deadline := time.Now().Add(5 * time.Second); push.Received.Load() < 500_000 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	if got := push.Received.Load(); got != 500_000 {
		t.Errorf("received %d bytes, want 500000", got)
	}
}

func TestShortDownloadsFollowTheSeed(t *testing.T) {
	_, a, b := pair(t, link.Shape{Rate: 50 * link.Mbit, Delay: 10 * time.Millisecond})
	source := serve(t, a, "reno")
	short := traffic.Short{Source: source, To: b, Count: 20, Size: 30 * 1000, Interval: 20 * time.Millisecond, Seed: 4}
	transfers, err := short.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i, transfer := range transfers {
		// More than a first window takes two round trips.
		if transfer.Size != short.Size || transfer.Established < 20*time.Millisecond || transfer.Took < 40*time.Millisecond {
			t.Errorf("transfer %d: %+v", i, transfer)
		}
	}
	if got := short.Done.Load(); got != 20 {
		t.Errorf("%d done, want 20", got)
	}
	starts := slices.IsSortedFunc(transfers, func(a, b traffic.Transfer) int { return a.Start.Compare(b.Start) })
	if !starts {
		t.Error("transfers are not in the order of their starts")
	}
}

func TestFetchFromNobodyIsAnError(t *testing.T) {
	_, a, b := pair(t, link.Shape{})
	source := serve(t, a, "")
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	var received atomic.Int64
	if _, err := source.Fetch(context.Background(), b, 1, &received); err == nil {
		t.Error("fetched from a closed source")
	}
}

func TestUnknownCongestionControlIsAnError(t *testing.T) {
	_, a, _ := pair(t, link.Shape{})
	if _, err := traffic.Serve(a, 80, "no-such-control"); err == nil || !strings.Contains(err.Error(), "no-such-control") {
		t.Errorf("error %v", err)
	}
}

func TestInterferenceKeepsItsRateAndSchedule(t *testing.T) {
	wire, a, b := pair(t, link.Shape{Rate: 50 * link.Mbit})
	udp := traffic.Interference{From: a, To: b, Port: 9, Packet: 1000, Schedule: []traffic.Period{
		{From: 100 * time.Millisecond, Until: 600 * time.Millisecond, Rate: 2 * link.Mbit},
		{From: 800 * time.Millisecond, Until: 1300 * time.Millisecond, Rate: 4 * link.Mbit},
	}}
	if err := udp.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	carried := wire.From(a).Read().Count.Offered
	if want := 125.0 + 250; math.Abs(float64(udp.Sent.Load())-want) > 2 || carried.Packets != udp.Sent.Load() {
		t.Errorf("sent %d and carried %d packets, want %v", udp.Sent.Load(), carried.Packets, want)
	}
	if carried.Bytes != link.Bytes(carried.Packets)*1000 {
		t.Errorf("%d bytes in %d packets of 1000", carried.Bytes, carried.Packets)
	}
}
