package lab_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

func addrPort(host *lab.Host, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(host.Addr(), port)
}

func udpAddr(host *lab.Host, port uint16) net.Addr {
	return net.UDPAddrFromAddrPort(addrPort(host, port))
}

// pair is two hosts and one link between them.
func pair(t *testing.T, seed uint64, shape link.Shape) (*lab.Link, *lab.Host, *lab.Host) {
	t.Helper()
	l := labtest.New(t, seed)
	a, b := l.Host("a"), l.Host("b")
	wire := l.Link(a, b, shape)
	labtest.Start(t, l)
	return wire, a, b
}

// eventually repeats a measurement that other load on the machine can disturb,
// a bounded number of times, and prints each try.
func eventually(t *testing.T, measure func() (good bool, told string)) {
	t.Helper()
	const tries = 3
	for try := range tries {
		good, told := measure()
		t.Logf("try %d: %s", try+1, told)
		if good {
			return
		}
	}
	t.Errorf("not once in %d tries", tries)
}

func TestRoundTripIsTwiceDelayAndSerialization(t *testing.T) {
	for name, shape := range map[string]link.Shape{
		"1 ms":                 {Delay: time.Millisecond},
		"10 ms at 10 Mbit/s":   {Delay: 10 * time.Millisecond, Rate: 10 * link.Mbit},
		"100 ms at 100 Mbit/s": {Delay: 100 * time.Millisecond, Rate: 100 * link.Mbit},
	} {
		t.Run(name, func(t *testing.T) {
			_, a, b := pair(t, 1, shape)
			to, conn := echo(t, b), packets(t, a, "9")
			const size = 1500
			want := 2 * (shape.Delay + shape.Rate.Time(size))
			tolerance := max(time.Millisecond, want/50)
			eventually(t, func() (bool, string) {
				got := median(roundTrips(t, conn, to, size, 15))
				return (got-want).Abs() <= tolerance && got >= want, "median round trip " + got.String() + ", want " + want.String()
			})
		})
	}
}

func TestQueueOf200PacketsDropsThe201st(t *testing.T) {
	const size = 1000
	// One packet lasts 800 ms, longer than it takes to send all of them.
	wire, a, b := pair(t, 1, link.Shape{Rate: 10 * link.Kbit, Queue: link.Packets(200)})
	conn, sink := packets(t, a, "9"), packets(t, b, "9")
	way := wire.From(a)

	sendNumbered(t, conn, udpAddr(b, 9), size, 200, 0)
	awaitOffered(t, way, 200)
	if got := way.Read(); got.Count.Overflowed.Packets != 0 || got.QueuePackets != 200 {
		t.Errorf("after 200 packets: %d queued, %d dropped", got.QueuePackets, got.Count.Overflowed.Packets)
	}
	sendNumbered(t, conn, udpAddr(b, 9), size, 1, 0)
	awaitOffered(t, way, 201)
	if got := way.Read(); got.Count.Overflowed.Packets != 1 {
		t.Errorf("after the 201st: %d dropped, want 1", got.Count.Overflowed.Packets)
	}
	if err := way.Step(100 * link.Mbit); err != nil {
		t.Fatal(err)
	}
	if got := len(receiveNumbered(t, sink, time.Second)); got != 200 {
		t.Errorf("%d packets arrived, want 200", got)
	}
}

func awaitOffered(t *testing.T, way lab.Way, packets int64) {
	t.Helper()
	for deadline := time.Now().Add(patience); way.Read().Count.Offered.Packets < packets; {
		if time.Now().After(deadline) {
			t.Fatalf("%d packets offered, want %d", way.Read().Count.Offered.Packets, packets)
		}
		<-time.After(time.Millisecond)
	}
}

func TestLossOfFivePercentOver20000Packets(t *testing.T) {
	const sent = 20_000
	wire, a, b := pair(t, 5, link.Shape{Loss: 0.05})
	conn, sink := packets(t, a, "9"), packets(t, b, "9")
	received := make(chan int)
	go func() { received <- len(receiveNumbered(t, sink, time.Second)) }()
	sendNumbered(t, conn, udpAddr(b, 9), 100, sent, 20*time.Microsecond)
	got := <-received
	count := wire.From(a).Read().Count
	if int64(got) != sent-count.Lost.Packets {
		t.Errorf("%d arrived, but the link counts %d lost of %d", got, count.Lost.Packets, sent)
	}
	share := float64(sent-got) / sent
	t.Logf("lost %.2f %%", 100*share)
	if share < 0.045 || share > 0.055 {
		t.Errorf("lost %.2f %%, want 4.5 to 5.5", 100*share)
	}
}

func TestSameSeedLosesTheSamePackets(t *testing.T) {
	survivors := func(seed uint64) []int {
		_, a, b := pair(t, seed, link.Shape{Loss: 0.2, Rate: 100 * link.Mbit})
		conn, sink := packets(t, a, "9"), packets(t, b, "9")
		sendNumbered(t, conn, udpAddr(b, 9), 100, 1000, 0)
		return receiveNumbered(t, sink, 300*time.Millisecond)
	}
	first, again, other := survivors(11), survivors(11), survivors(12)
	if !slices.Equal(first, again) {
		t.Errorf("seed 11 let %d packets pass, then %d others", len(first), len(again))
	}
	if slices.Equal(first, other) {
		t.Error("seeds 11 and 12 lost the same packets")
	}
}

func TestCutLinkLosesAllAndHealedLinkNothing(t *testing.T) {
	const n = 500
	wire, a, b := pair(t, 1, link.Shape{Delay: time.Millisecond, Rate: 100 * link.Mbit})
	conn, sink := packets(t, a, "9"), packets(t, b, "9")
	arrive := func() int {
		sendNumbered(t, conn, udpAddr(b, 9), 200, n, 0)
		return len(receiveNumbered(t, sink, 300*time.Millisecond))
	}
	if err := wire.Cut(); err != nil {
		t.Fatal(err)
	}
	if got := arrive(); got != 0 {
		t.Errorf("%d packets crossed a cut link", got)
	}
	if err := wire.Heal(); err != nil {
		t.Fatal(err)
	}
	if got := arrive(); got != n {
		t.Errorf("%d of %d packets crossed the healed link", got, n)
	}
	if err := wire.From(b).Cut(); err != nil {
		t.Fatal(err)
	}
	if got := arrive(); got != n {
		t.Errorf("%d of %d packets arrived with only the way back cut", got, n)
	}
}

func TestCorruptedDatagramIsCaughtByItsChecksum(t *testing.T) {
	wire, a, b := pair(t, 1, link.Shape{Corrupt: 1})
	conn, sink := packets(t, a, "9"), packets(t, b, "9")
	sendNumbered(t, conn, udpAddr(b, 9), 500, 100, 0)
	if got := len(receiveNumbered(t, sink, 300*time.Millisecond)); got != 0 {
		t.Errorf("%d damaged datagrams were accepted", got)
	}
	if got := wire.From(a).Read().Count.Corrupted.Packets; got != 100 {
		t.Errorf("%d corrupted, want 100", got)
	}
}

func TestDirectionsAreShapedOnTheirOwn(t *testing.T) {
	l := labtest.New(t, 1)
	a, b := l.Host("a"), l.Host("b")
	l.Link(a, b, link.Shape{Delay: 30 * time.Millisecond}).Back(link.Shape{Delay: 10 * time.Millisecond})
	labtest.Start(t, l)
	to, conn := echo(t, b), packets(t, a, "9")
	eventually(t, func() (bool, string) {
		got := median(roundTrips(t, conn, to, 100, 9))
		return (got - 40*time.Millisecond).Abs() < time.Millisecond, got.String()
	})
}
