package paper_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/paper"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// scene is a server that has a lot to send, and what it last did.
type scene struct {
	*testing.T
	*paper.Sender
	now      time.Time
	window   paper.Transmit // the last
	windows  int
	answers  []paper.Answer
	dropped  int
	finished paper.Reason
}

var (
	wired    = netip.MustParseAddrPort("10.0.0.10:7431")
	wireless = netip.MustParseAddrPort("10.0.1.10:7431")
)

func serve(t *testing.T, o paper.SenderOptions, packets uint32, ended bool) *scene {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, Sender: paper.NewSender(o), now: time.Unix(1_000_000, 0)}
	s.step(paper.Ready{Packets: packets, Ended: ended})
	return s
}

// step tells the sender something, and says Sent to what it transmits, at once.
func (s *scene) step(event paper.Event) {
	actions := s.Step(s.now, event)
	for len(actions) > 0 {
		action := actions[0]
		actions = actions[1:]
		switch action := action.(type) {
		case paper.Transmit:
			s.window = action
			s.windows++
			actions = append(actions, s.Step(s.now, paper.Sent{})...)
		case paper.Answer:
			s.answers = append(s.answers, action)
		case paper.Dropped:
			s.dropped++
		case paper.Finished:
			s.finished = action.Reason
		}
	}
}

func (s *scene) hear(from netip.AddrPort, kind wire.Type, sn uint32) {
	s.step(paper.Packet{From: from, Packet: wire.Packet{SN: sn, Type: kind, LWSN: s.window.Last}})
}

// ack has the LANs confirm the last window.
func (s *scene) ack(from ...netip.AddrPort) {
	for _, one := range from {
		s.hear(one, wire.ACK, s.window.Last)
	}
}

func (s *scene) nack(from netip.AddrPort, sn uint32) { s.hear(from, wire.NACK, sn) }

// expire lets the timer expire.
func (s *scene) expire() {
	s.now = s.Sender.Deadline()
	s.step(nil)
}

func (s *scene) wantWindow(window int, timeout time.Duration) {
	s.Helper()
	if s.window.Window != window || s.window.Timeout != timeout || s.window.Last-s.window.First+1 != uint32(window) {
		s.Errorf("window %d (%d to %d) with %v, want %d with %v", s.window.Window, s.window.First, s.window.Last, s.window.Timeout, window, timeout)
	}
}

// grow has the window grow to a size.
func (s *scene) grow(to int, lans ...netip.AddrPort) {
	for s.window.Window < to {
		s.ack(lans...)
	}
}

const least = paper.DefaultTimeout

// "Supposing an initial window size of one (see figure 1), the server sends only one data packet
// to the network and it waits for ACK packets" (§IV-B)
func TestFirstWindowIsOne(t *testing.T) {
	s := serve(t, options(1), 1000, true)
	s.wantWindow(1, least)
	if s.window.First != 1 || !s.Sender.Deadline().Equal(s.now.Add(least)) {
		t.Errorf("%+v, until %v", s.window, s.Sender.Deadline())
	}
}

// "If the expected ACKs associated to this window have been received before the timer expires,
// the server increases the window size in one unit." (§III-C)
func TestACKsInTimeIncreaseTheWindow(t *testing.T) {
	s := serve(t, options(1), 1000, true)
	s.ack(wired)
	s.wantWindow(2, least)
	s.ack(wired)
	s.wantWindow(3, least)
}

// "A window is only confirmed when the server receives one ACK for each participating LAN" (§III-C)
func TestEveryLANHasToConfirm(t *testing.T) {
	s := serve(t, options(2), 1000, true)
	s.ack(wired, wired)
	s.wantWindow(1, least)
	s.ack(wireless)
	s.wantWindow(2, least)
}

// An ACK that is not of the last window confirms nothing, in whatever LAN; nor does one from
// elsewhere, or of what was never sent.
func TestOtherACKsConfirmNothing(t *testing.T) {
	s := serve(t, options(1), 1000, true)
	s.grow(5, wired)
	for _, sn := range []uint32{s.window.First - 1, s.window.First, s.window.Last + 1, wire.MaxSN} {
		s.hear(wired, wire.ACK, sn)
	}
	s.ack(netip.MustParseAddrPort("192.168.0.1:7431"))
	s.wantWindow(5, least)
}

// growing are options with an α.
func growing(alpha float64) paper.SenderOptions {
	o := options(1)
	o.Flow.Alpha = alpha
	return o
}

// "If the timeout expires, the server decreases the window size in one unit." "If the timer expires
// before the ACKs are received, its value is increased multiplying it by a factor of α" (§III-C)
func TestTimeoutDecreasesTheWindow(t *testing.T) {
	s := serve(t, growing(1.25), 1000, true)
	s.grow(5, wired)
	s.expire()
	s.wantWindow(4, 125*ms)
	s.expire()
	s.wantWindow(3, 156250*us)
}

// An ACK that comes with the timer's end, or after, is too late.
func TestACKAtTheTimersEndIsLate(t *testing.T) {
	s := serve(t, growing(1.25), 1000, true)
	s.grow(5, wired)
	late := s.window.Last
	s.now = s.Sender.Deadline()
	s.hear(wired, wire.ACK, late)
	s.wantWindow(4, 125*ms)
}

// "T_out = max{T_out/β, dflt_T_out}" (1), "where β > α > 1 and dflt_Tout is the bottom threshold
// value" (§III-C)
func TestEquation1(t *testing.T) {
	s := serve(t, growing(1.25), 1000, true)
	s.grow(9, wired)
	for range 5 {
		s.expire()
	}
	grown := s.window.Timeout
	s.ack(wired)
	s.wantWindow(5, grown/2)
	s.ack(wired)
	s.wantWindow(6, least)
}

// "For each NACK that indicates a different packet loss (only the first NACK indicating a
// particular packet loss is considered), the server decrements the window size in one unit." (§III-C)
func TestFirstNACKOfEachLossCounts(t *testing.T) {
	s := serve(t, options(2), 1000, true)
	s.grow(20, wired, wireless)
	for range 3 {
		s.nack(wired, s.window.First+2)
		s.nack(wireless, s.window.First+2)
	}
	s.nack(wired, s.window.First+7)
	s.ack(wired, wireless)
	s.wantWindow(20+1-2, least)
	// They come again, when other windows have been sent.
	s.nack(wired, s.window.First-20+2)
	s.ack(wired, wireless)
	s.wantWindow(20, least)
}

// C41: NACKs of what was never sent, or from outside, change nothing.
func TestForgedNACKs(t *testing.T) {
	s := serve(t, options(1), 1000, true)
	s.grow(20, wired)
	s.nack(wired, s.window.Last+1)
	s.nack(wired, wire.MaxSN)
	s.nack(netip.MustParseAddrPort("192.168.0.1:7431"), s.window.First)
	s.ack(wired)
	s.wantWindow(21, least)
}

// C42: a member that NACKs everything keeps the window at one, and no more than that.
func TestWindowIsNeverLessThanOne(t *testing.T) {
	s := serve(t, options(1), 1000, true)
	s.grow(20, wired)
	for range 10 {
		for sn := s.window.First; sn <= s.window.Last; sn++ {
			s.nack(wired, sn)
		}
		s.ack(wired)
	}
	s.wantWindow(1, least)
}

// "we choose a maximum window size of 100 data packets (rule of thumb)" (§IV-A)
func TestWindowIsNeverMoreThan100(t *testing.T) {
	s := serve(t, options(1), 100_000, true)
	for range 150 {
		s.ack(wired)
	}
	s.wantWindow(100, least)
}

// "in this phase the server never retransmits any data packet" (§III-A)
func TestNothingIsSentTwice(t *testing.T) {
	s := serve(t, options(1), 1000, true)
	next := uint32(1)
	for s.window.Last < 1001 {
		if s.window.First != next {
			t.Fatalf("a window begins with %d, want %d", s.window.First, next)
		}
		next = s.window.Last + 1
		if s.windows%3 == 0 {
			s.nack(wired, s.window.Last)
			s.expire()
		} else {
			s.ack(wired)
		}
	}
	if !s.window.IsEnd {
		t.Error("the last window is not the end")
	}
}

// "The second phase […] starts when the entire file has been transmitted. […] The server answers
// the client sending a unicast REPAIR-RESPONSE packet." (§III-A)
func TestRepairsAreAnsweredAfterTheMulticastPhase(t *testing.T) {
	s := serve(t, options(1), 3, true)
	s.hear(wired, wire.RepairRequest, 1)
	s.ack(wired)
	s.hear(wired, wire.RepairRequest, 1)
	if len(s.answers) != 0 {
		t.Errorf("answered too early: %v", s.answers)
	}
	s.ack(wired)
	s.hear(wired, wire.RepairRequest, 2)
	s.hear(wired, wire.RepairRequest, 5)
	if want := (paper.Answer{To: wired, SN: 2, LWSN: 4}); len(s.answers) != 1 || s.answers[0] != want {
		t.Errorf("answers: %v", s.answers)
	}
	s.ack(wired)
	s.expire()
	if s.finished != paper.Done {
		t.Errorf("finished: %q", s.finished)
	}
	s.hear(wired, wire.RepairRequest, 1)
	if len(s.answers) != 1 {
		t.Error("answered after the end")
	}
}

// C47: a request from outside the LANs that take part is not answered.
func TestStrangersAreNotAnswered(t *testing.T) {
	s := serve(t, options(1), 0, true)
	s.ack(wired)
	s.hear(wireless, wire.RepairRequest, 1)
	if len(s.answers) != 0 {
		t.Errorf("answers: %v", s.answers)
	}
}

// "disabling the error correction phase, the synchronicity feature converts SOMA into a useful and
// simple multicast transport protocol also for on-line applications" (§III-A)
func TestStreamHasNoSecondPhase(t *testing.T) {
	o := options(1)
	o.ErrorCorrection = false
	s := serve(t, o, 2, false)
	s.ack(wired)
	s.ack(wired)
	before := s.windows
	s.now = s.now.Add(time.Hour) // nothing was said for long
	s.step(paper.Ready{Packets: 3})
	if s.windows != before+1 || s.window.First != 3 {
		t.Errorf("%+v", s.window)
	}
	s.ack(wired)
	s.step(paper.Ready{Packets: 3, Ended: true})
	s.ack(wired)
	for range paper.Farewells {
		s.expire()
	}
	if s.finished != paper.Done || len(s.answers) != 0 || s.window.Last != 4 {
		t.Errorf("finished: %q, after %+v", s.finished, s.window)
	}
}

// Nobody can ask for the end of a stream, and an ACK speaks for one client of a LAN: so the end is said more than once, whoever has
// confirmed it, and whoever has gone home since is not missed.
func TestEndOfStreamIsRepeated(t *testing.T) {
	o := options(2)
	o.ErrorCorrection = false
	s := serve(t, o, 9, true)
	for range 200 { // the wireless one hears nothing
		if s.window.Last == 10 {
			break
		}
		s.ack(wired)
		s.expire()
	}
	s.ack(wired, wireless)
	began, before := s.now, s.windows
	for s.finished == "" && s.windows < before+10 {
		if s.window.First != 10 || s.window.Last != 10 || !s.window.IsEnd {
			t.Fatalf("after the end came %+v", s.window)
		}
		s.expire()
	}
	if took := s.now.Sub(began); s.windows != before+paper.Farewells-1 || s.finished != paper.Done || s.dropped != 0 || took > time.Second {
		t.Errorf("%d windows more, ended after %v with %q, %d dropped", s.windows-before, took, s.finished, s.dropped)
	}
}

// "one ACK for each participating LAN" (§III-C): the server's own is as large as its interface says, for by that its clients keep
// silent when another of them has acknowledged. Others are taken to have 24 bits.
func TestOwnLANIsOne(t *testing.T) {
	s := serve(t, paper.SenderOptions{LAN: netip.MustParsePrefix("10.0.0.1/23"), StrangerBits: 24}, 1000, true)
	s.ack(wired)
	s.wantWindow(2, least)
	s.ack(wireless) // in the same one
	s.wantWindow(3, least)
	elsewhere := netip.MustParseAddrPort("10.0.2.10:7431")
	s.nack(elsewhere, 1)
	s.ack(wireless)
	s.wantWindow(3, least)
	s.ack(elsewhere)
	if s.window.First != 7 {
		t.Errorf("with both ACKs there came %+v", s.window)
	}
}

// A LAN that was dropped takes part again when something comes from it.
func TestDroppedLANComesBack(t *testing.T) {
	s := serve(t, options(2), 100_000, true)
	for s.dropped == 0 && s.windows < 200 {
		s.ack(wired)
		s.expire()
	}
	s.grow(50, wired)
	s.nack(wireless, s.window.First)
	s.ack(wired)
	if s.window.Window != 50 {
		t.Error("a LAN that is back does not have to confirm")
	}
	s.ack(wireless)
	s.wantWindow(50, least)
}

// A server that was frozen drops nobody: it has sent nothing that could be answered.
func TestFrozenServerDropsNobody(t *testing.T) {
	s := serve(t, options(1), 1000, true)
	s.grow(10, wired)
	s.now = s.now.Add(time.Hour)
	s.step(nil)
	s.ack(wired)
	s.wantWindow(10, least)
}

// C61: of two servers on one group one goes on: who is further, or of two that begin who has the
// lower address.
func TestTwoServers(t *testing.T) {
	low, high := netip.MustParseAddrPort("10.0.0.1:7431"), netip.MustParseAddrPort("10.0.0.2:7431")
	for _, c := range []struct {
		own, other netip.AddrPort
		sn         uint32
		yields     bool
	}{
		{low, high, 20, false},
		{high, low, 20, true},
		{low, high, 1000, true},
		{high, low, 1000, true},
		{low, low, 1000, false},
	} {
		o := options(1)
		o.Address = c.own
		s := serve(t, o, 100_000, true)
		s.grow(10, wired)
		s.hear(c.other, wire.Data, c.sn)
		if (s.finished == paper.GroupTaken) != c.yields {
			t.Errorf("%v hears packet %d of %v: %q", c.own, c.sn, c.other, s.finished)
		}
		if s.finished != "" && s.window.Last == 1 {
			t.Error("it has not begun")
		}
	}
}

// C60: numbers do not wrap. A stream that needs more ends, and says why.
func TestNumbersDoNotWrap(t *testing.T) {
	o := options(1)
	o.ErrorCorrection = false
	s := serve(t, o, wire.MaxSN, false)
	s.SkipTo(wire.MaxSN - 10)
	s.expire()
	for range 20 {
		s.ack(wired)
	}
	for range paper.Farewells {
		s.expire()
	}
	if s.finished != paper.NumbersSpent || s.window.Last != wire.MaxSN || !s.window.IsEnd {
		t.Errorf("finished: %q after %+v", s.finished, s.window)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*paper.SenderOptions){
		"β > α > 1":   func(o *paper.SenderOptions) { o.Flow.Alpha, o.Flow.Beta = 2, 1.5 },
		"maximum":     func(o *paper.SenderOptions) { o.Flow.MaxWindow = 101 },
		"negative":    func(o *paper.SenderOptions) { o.Flow.Timeout = -1 },
		"no LAN":      func(o *paper.SenderOptions) { o.LANs = nil },
		"IPv4":        func(o *paper.SenderOptions) { o.LANs = []netip.Prefix{netip.MustParsePrefix("fe80::/64")} },
		"of 33 bits":  func(o *paper.SenderOptions) { o.StrangerBits = 33 },
		"the longest": func(o *paper.SenderOptions) { o.Flow.Longest = 1 },
	} {
		o := options(1)
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
