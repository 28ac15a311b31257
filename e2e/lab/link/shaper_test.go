package link

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// scenario drives one Shaper by hand.
type scenario struct {
	t      *testing.T
	shaper *Shaper
	now    time.Duration
}

func play(t *testing.T, shape Shape) *scenario {
	t.Helper()
	if err := shape.Validate(); err != nil {
		t.Fatalf("shape: %v", err)
	}
	return &scenario{t: t, shaper: NewShaper(shape, BarePackets, 7)}
}

// send offers packets of size bytes whose first byte is their number.
func (s *scenario) send(size int, numbers ...int) {
	for _, number := range numbers {
		frame := make([]byte, size)
		frame[0] = byte(number)
		s.shaper.Enter(s.now, frame)
	}
}

func (s *scenario) at(now time.Duration) { s.now = now }

// arrivals returns the numbers of the packets that have arrived by now.
func (s *scenario) arrivals() []int {
	var numbers []int
	for {
		frame, due := s.shaper.Leave(s.now)
		if frame == nil {
			return numbers
		}
		if due > s.now {
			s.t.Errorf("packet %d left at %v before it was due at %v", frame[0], s.now, due)
		}
		numbers = append(numbers, int(frame[0]))
	}
}

func (s *scenario) wantArrivals(want ...int) {
	s.t.Helper()
	if got := s.arrivals(); !slices.Equal(got, want) {
		s.t.Errorf("at %v arrived %v, want %v", s.now, got, want)
	}
}

func (s *scenario) count() Count { return s.shaper.Read(s.now).Count }

func TestPerfectWireTakesNoTime(t *testing.T) {
	s := play(t, Shape{})
	s.send(1500, 1, 2)
	s.wantArrivals(1, 2)
}

func TestArrivalIsSerializationPlusDelay(t *testing.T) {
	s := play(t, Shape{Rate: 12 * Mbit, Delay: 10 * time.Millisecond}) // 1500 bytes last 1 ms
	s.send(1500, 1, 2)
	s.at(11*time.Millisecond - 1)
	s.wantArrivals()
	s.at(11 * time.Millisecond)
	s.wantArrivals(1)
	s.at(12 * time.Millisecond)
	s.wantArrivals(2)
}

func TestDeadlineNamesTheNextArrival(t *testing.T) {
	s := play(t, Shape{Rate: 12 * Mbit, Delay: 10 * time.Millisecond})
	if _, ok := s.shaper.Deadline(); ok {
		t.Error("an empty link has a deadline")
	}
	s.send(1500, 1)
	if at, ok := s.shaper.Deadline(); !ok || at != 11*time.Millisecond {
		t.Errorf("deadline %v, %v; want 11ms", at, ok)
	}
}

func TestQueueOf200Drops201st(t *testing.T) {
	s := play(t, Shape{Rate: Mbit, Queue: Packets(200)})
	for number := range 200 {
		s.send(1000, number)
	}
	if dropped := s.count().Overflowed.Packets; dropped != 0 {
		t.Fatalf("%d of the first 200 dropped", dropped)
	}
	s.send(1000, 200)
	if dropped := s.count().Overflowed.Packets; dropped != 1 {
		t.Errorf("%d dropped after the 201st, want 1", dropped)
	}
	s.at(8 * time.Millisecond) // the first is on the wire: one place is free
	s.send(1000, 201, 202)
	if dropped := s.count().Overflowed.Packets; dropped != 2 {
		t.Errorf("%d dropped after one place was freed, want 2", dropped)
	}
}

func TestQueueInBytes(t *testing.T) {
	s := play(t, Shape{Rate: Mbit, Queue: Size(3000)})
	s.send(1500, 1, 2)
	s.send(1, 3)
	if got := s.count(); got.Overflowed.Packets != 1 || got.Largest != 3000 {
		t.Errorf("dropped %d with %d bytes queued, want 1 with 3000", got.Overflowed.Packets, got.Largest)
	}
}

func TestFrameHeaderIsNotClocked(t *testing.T) {
	s := NewShaper(Shape{Rate: 12 * Mbit}, EthernetFrames, 1)
	s.Enter(0, make([]byte, 1514))
	if at, _ := s.Deadline(); at != time.Millisecond {
		t.Errorf("a packet of 1500 bytes lasts %v, want 1ms", at)
	}
}

func TestRateStepRetimesTheRestOfAPacket(t *testing.T) {
	s := play(t, Shape{Rate: 12 * Mbit})
	s.send(1500, 1, 2)
	s.at(500 * time.Microsecond) // half of the first is out
	s.shaper.Reshape(s.now, Shape{Rate: 6 * Mbit})
	s.at(1500 * time.Microsecond)
	s.wantArrivals(1)
	s.at(3500*time.Microsecond - 1)
	s.wantArrivals()
	s.at(3500 * time.Microsecond)
	s.wantArrivals(2)
}

func TestCutLosesAllAndHealedNothing(t *testing.T) {
	s := play(t, Shape{Rate: 12 * Mbit, Delay: time.Millisecond})
	s.send(1500, 1, 2, 3)
	s.at(1500 * time.Microsecond)
	s.shaper.Reshape(s.now, Shape{Rate: 12 * Mbit, Delay: time.Millisecond, Cut: true})
	s.send(1500, 4)
	s.at(time.Second)
	s.wantArrivals()
	s.shaper.Reshape(s.now, Shape{Rate: 12 * Mbit, Delay: time.Millisecond})
	s.send(1500, 5)
	s.at(2 * time.Second)
	s.wantArrivals(5)
	if cut := s.count().CutOff.Packets; cut != 4 {
		t.Errorf("%d packets cut off, want 4", cut)
	}
}

func TestBlackHoleSwallowsOnlyWhatIsBigger(t *testing.T) {
	s := play(t, Shape{BlackHole: 1400})
	s.send(1400, 1)
	s.send(1401, 2)
	s.wantArrivals(1)
}

func TestFirewallSwallowsUDPOfOne(t *testing.T) {
	const tcp, udp = 6, 17
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")
	packet := func(from netip.Addr, protocol byte) []byte {
		if from.Is4() {
			return slices.Concat([]byte{0x45, 9: protocol, 11: 0}, from.AsSlice(), make([]byte, 4))
		}
		return slices.Concat([]byte{0x60, 6: protocol, 7: 0}, from.AsSlice(), make([]byte, 16))
	}
	for _, test := range []struct {
		noUDP, from netip.Addr
		protocol    byte
		want        int64
	}{
		{four, four, udp, 0},
		{four, four, tcp, 1},
		{four, four.Next(), udp, 1},
		{netip.Addr{}, four, udp, 1},
		{six, six, udp, 0},
		{six, six, tcp, 1},
		{six, four, udp, 1},
	} {
		s := play(t, Shape{NoUDP: test.noUDP})
		s.shaper.Enter(s.now, packet(test.from, test.protocol))
		for frame, _ := s.shaper.Leave(s.now); frame != nil; frame, _ = s.shaper.Leave(s.now) {
		}
		if c := s.count(); c.Delivered.Packets != test.want || c.BlackHoled.Packets != 1-test.want {
			t.Errorf("with a firewall against UDP of %v, of protocol %d from %v: %+v, want %d delivered", test.noUDP, test.protocol, test.from, c, test.want)
		}
	}
}

func TestDuplicateArrivesTwice(t *testing.T) {
	s := play(t, Shape{Duplicate: 1})
	s.send(100, 1)
	s.wantArrivals(1, 1)
}

func TestReorderedPacketIsOvertaken(t *testing.T) {
	s := play(t, Shape{Delay: time.Millisecond, Reorder: Reorder{Probability: 1, By: 5 * time.Millisecond}})
	s.send(100, 1)
	s.shaper.Reshape(s.now, Shape{Delay: time.Millisecond})
	s.send(100, 2)
	s.at(10 * time.Millisecond)
	s.wantArrivals(2, 1)
}

func TestCorruptionFlipsOneBitBehindTheHeader(t *testing.T) {
	s := NewShaper(Shape{Corrupt: 1}, BarePackets, 3)
	for range 100 {
		s.Enter(0, make([]byte, 28))
		frame, _ := s.Leave(0)
		ones := 0
		for i, b := range frame {
			if b != 0 && i < ipv4Header {
				t.Fatalf("byte %d of the header is damaged", i)
			}
			for ; b != 0; b &= b - 1 {
				ones++
			}
		}
		if ones != 1 {
			t.Fatalf("%d bits flipped, want 1", ones)
		}
	}
}

func TestLossOfFivePercent(t *testing.T) {
	const packets = 20_000
	s := play(t, Shape{Loss: 0.05})
	for range packets {
		s.send(100, 1)
		s.arrivals()
	}
	if share := float64(s.count().Lost.Packets) / packets; share < 0.045 || share > 0.055 {
		t.Errorf("lost %.2f %%, want 4.5 to 5.5", 100*share)
	}
}

func TestBurstLossComesInRunsOfItsMeanLength(t *testing.T) {
	s := play(t, Shape{Burst: Burst{Start: 0.01, Length: 8}})
	var runs, lost int
	previous := false
	for range 50_000 {
		before := s.count().Lost.Packets
		s.send(100, 1)
		s.arrivals()
		now := s.count().Lost.Packets > before
		if now {
			lost++
		}
		if now && !previous {
			runs++
		}
		previous = now
	}
	if mean := float64(lost) / float64(runs); mean < 7 || mean > 9.5 {
		t.Errorf("mean burst %.2f packets, want about 8", mean)
	}
}

func TestSameSeedLosesTheSamePackets(t *testing.T) {
	shape := Shape{Loss: 0.1, Burst: Burst{Start: 0.01, Length: 3}}
	fates := func(seed uint64, shape Shape) []bool {
		s := NewShaper(shape, BarePackets, seed)
		var fate []bool
		for range 2000 {
			s.Enter(0, make([]byte, 100))
			frame, _ := s.Leave(0)
			fate = append(fate, frame != nil)
			s.Leave(0)
		}
		return fate
	}
	if !slices.Equal(fates(1, shape), fates(1, shape)) {
		t.Error("the same seed lost other packets")
	}
	if slices.Equal(fates(1, shape), fates(2, shape)) {
		t.Error("another seed lost the same packets")
	}
	other := shape
	other.Duplicate, other.Corrupt = 0.5, 0.5
	if !slices.Equal(fates(1, shape), fates(1, other)) {
		t.Error("another effect changed which packets are lost")
	}
}

func TestMeanQueueIsExact(t *testing.T) {
	s := play(t, Shape{Rate: 12 * Mbit})
	s.send(1500, 1, 2, 3)
	s.at(10 * time.Millisecond)
	// 3 packets for 1 ms, then 2, then 1.
	if got := s.shaper.Read(s.now).Level.PacketSeconds; got < 0.00599 || got > 0.00601 {
		t.Errorf("%v packet seconds, want 0.006", got)
	}
}

// Whatever happens to the link, no packet is forgotten.
func TestEveryPacketIsAccountedFor(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := play(t, Shape{})
		for range 500 {
			s.now += time.Duration(random.IntN(int(time.Millisecond)))
			switch random.IntN(20) {
			case 0:
				s.shaper.Reshape(s.now, randomShape(random))
			default:
				s.send(28+random.IntN(1472), 1)
				s.arrivals()
			}
		}
		s.at(s.now + time.Hour)
		s.arrivals()
		c := s.count()
		in := c.Offered.Packets + c.Duplicated.Packets
		out := c.CutOff.Packets + c.BlackHoled.Packets + c.Overflowed.Packets + c.Lost.Packets + c.Delivered.Packets
		if in != out {
			t.Fatalf("seed %d: %d packets in, %d accounted for: %+v", seed, in, out, c)
		}
	}
}

func randomShape(random *rand.Rand) Shape {
	return Shape{
		Rate:      Rate(1+random.IntN(100)) * Mbit,
		Delay:     time.Duration(random.IntN(int(20 * time.Millisecond))),
		Queue:     Packets(1 + random.IntN(20)),
		Loss:      random.Float64() / 4,
		Duplicate: random.Float64() / 4,
		Corrupt:   random.Float64() / 4,
		Reorder:   Reorder{Probability: random.Float64() / 4, By: time.Millisecond},
		Cut:       random.IntN(10) == 0,
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	err := Shape{Loss: 2, Rate: -1}.Validate()
	if err == nil {
		t.Fatal("a wrong shape is accepted")
	}
	if got := err.Error(); got != "loss 2 is no probability\na rate, delay or limit is negative" {
		t.Errorf("error %q", got)
	}
}

func BenchmarkShaper(b *testing.B) {
	s := NewShaper(Shape{Rate: Gbit, Delay: time.Millisecond, Queue: Packets(1000)}, BarePackets, 1)
	frame := make([]byte, 1500)
	now := time.Duration(0)
	for b.Loop() {
		now += 12 * time.Microsecond
		s.Enter(now, frame)
		s.Leave(now)
	}
}
