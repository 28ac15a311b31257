package send

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// footprint is what a stranger might change of a session.
type footprint struct {
	window, members, joined, coming, refused int
	counts                                   algo.Counts
	member                                   algo.Status
	at                                       netip.AddrPort
	said                                     uint64        // to the member
	next                                     algo.Decision // and when
}

func footprintOf(s *session, p *peer, now time.Time) footprint {
	return footprint{
		window: s.rules.Window(), members: s.rules.Members(), joined: len(s.joined), coming: len(s.coming), refused: len(s.refused),
		counts: s.rules.Counts(), member: s.rules.Member(p.id), at: p.at, said: p.number, next: s.rules.Next(now, 44),
	}
}

// onLoopback is a session with a socket that nobody reads.
func onLoopback(t *testing.T) *session {
	t.Helper()
	s, _ := turning(t)
	s.salt = wire.Salt{1}
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if s.socket, err = udp.New(conn, 1<<16); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.socket.Close() })
	return s
}

// begin has a session send an object of one block.
func begin(t *testing.T, s *session, now time.Time) algo.Shape {
	t.Helper()
	shape, err := algo.ShapeOf(20_000, wire.MinDatagram)
	if err != nil {
		t.Fatal(err)
	}
	if s.rules, err = algo.NewSender(algo.Settings{Shape: shape, Ceiling: 1e9, Window: 1000, Patience: time.Minute}, now); err != nil {
		t.Fatal(err)
	}
	return shape
}

// C41, C44: what somebody says to a sender that has no key, whatever it looks like, and what it sends again of what it heard, are
// dropped: the window and all counts are as they were, and nobody is answered.
func TestStrangersAreDropped(t *testing.T) {
	s := onLoopback(t)
	join := says(0, 1, wire.Joining{Name: "a"})
	hears(t, s, join)
	p := s.joined[publicOf(1)]
	now := s.socket.Arrived().Add(-10 * time.Millisecond) // in virtual time: the socket is never read, and all reports arrive at its beginning
	shape := begin(t, s, now)
	s.admit(p)
	sendAll := func() { // that may be on its way before somebody answers, and after that all
		for d := s.rules.Next(now, 44); d.Do != algo.Wait || s.rules.Counts().Reports > 0 && s.rules.Passed() == 0; d = s.rules.Next(now, 44) {
			if d.Do == algo.Wait {
				now = d.Until
			}
		}
	}
	sendAll()
	from, number := p.at, uint64(0)
	report := func(r wire.Reported) []byte {
		number++
		return p.up.Seal(nil, wire.Head{Kind: wire.Report, Block: uint32(p.id), Number: number}, r.Append(nil))
	}
	ack := wire.Reported{Poll: 1, Seen: 1, Received: 1}
	nack := wire.Reported{Poll: 1, Seen: 2, Received: 1, Wants: []wire.Want{{Block: 0, Need: 8, Missing: 255}}}
	done := wire.Reported{Poll: 1, Seen: 2, Received: 2, Frontier: shape.Blocks(), State: wire.Complete}
	failed := wire.Reported{Poll: 1, State: wire.Failed, Reason: wire.Damaged}
	first := report(ack)
	s.take(first, from)
	if s.rules.Counts().Reports != 1 {
		t.Fatal("the member's own report is not taken")
	}
	sendAll()

	before := footprintOf(s, p, now)
	want := func(what string, datagram []byte) {
		t.Helper()
		s.take(datagram, netip.MustParseAddrPort("10.0.0.9:9"))
		if after := footprintOf(s, p, now); after != before {
			t.Fatalf("%s: %+v, want %+v", what, after, before)
		}
	}
	asks := report(nack)
	for _, datagram := range [][]byte{
		report(ack), asks, report(done), report(failed),
		says(1, 1, wire.Joining{Name: "a"}), says(0, 2, wire.Joining{Name: "b"}),
		says(0, 3, wire.Joining{Name: "b", Have: wire.HaveUnknown}), says(0, 4, wire.Joining{Name: "a", Refused: wire.NoRoom, Detail: "full"}),
	} {
		for bit := range len(datagram) * 8 {
			forged := slices.Clone(datagram)
			forged[bit/8] ^= 1 << (bit % 8)
			want("a bit is flipped", forged)
		}
		for size := range datagram {
			want("it is cut off", datagram[:size])
		}
	}
	box := wire.NewSecret([]byte{7}, s.salt).Group() // of another key
	for kind := range wire.Kind(255) {
		for _, r := range []wire.Reported{ack, nack, done, failed} {
			want("under another key", box.Seal(nil, wire.Head{Kind: kind, Block: uint32(p.id), Number: 1 << 40}, r.Append(nil)))
		}
	}
	public := publicOf(5)
	want("a JOIN under another key", wire.NewSecret([]byte{7}, s.salt).JoinAs(0, public[:], wire.Joining{Heard: wire.MinDatagram, Name: "c"}))
	want("a JOIN is sent again", join)
	want("a report is sent again", first)

	s.take(asks, from)
	if c := s.rules.Counts(); c.Reports != 2 || c.Wants == 0 {
		t.Errorf("what the member says itself then is not taken: %+v", c)
	}
}

// reliability D 12: of a member that reports without end, whatever it says, only so much is taken as one can have to tell; the others are
// heard meanwhile.
func TestReportsAreBudgeted(t *testing.T) {
	s := onLoopback(t)
	begin(t, s, time.Now())
	for member, name := range []string{"a", "b"} {
		hears(t, s, says(0, byte(member+1), wire.Joining{Name: name}))
		s.admit(s.joined[publicOf(byte(member+1))])
	}
	number := uint64(0)
	taken := func(of byte, count int) uint64 {
		p, before := s.joined[publicOf(of)], s.rules.Counts().Reports
		for range count {
			number++
			s.take(p.up.Seal(nil, wire.Head{Kind: wire.Report, Block: uint32(p.id), Number: number}, wire.Reported{}.Append(nil)), p.at)
		}
		return s.rules.Counts().Reports - before
	}
	if got := taken(1, 3*reportBurst); got != reportBurst {
		t.Errorf("%d of %d reports at once are taken, want %d", got, 3*reportBurst, reportBurst)
	}
	if got := taken(2, 10); got != 10 {
		t.Errorf("%d of 10 reports of another are taken meanwhile", got)
	}
}
