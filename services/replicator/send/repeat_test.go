package send

import (
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// says is a JOIN of a member.
func says(number uint64, member byte, j wire.Joining) []byte {
	public := publicOf(member)
	j.Heard = wire.MinDatagram
	return wire.NewSecret([]byte{0}, wire.Salt{1}).JoinAs(number, public[:], j)
}

// A receiver that says that it comes is waited for as long as it says so itself: what anybody sends again that has recorded it counts no second
// time, also when the one that said it has joined, or refused.
func TestRepeatedComingIsNotWaitedFor(t *testing.T) { synctest.Test(t, repeatedComingIsNotWaitedFor) }

func repeatedComingIsNotWaitedFor(t *testing.T) {
	for name, then := range map[string]wire.Joining{
		"it is gone": {}, "it has joined": {Name: "a"}, "it refuses": {Name: "a", Refused: wire.NoRoom, Detail: "full"},
	} {
		s, _ := turning(t)
		want := func(what string, isExpecting bool) {
			t.Helper()
			if got := s.isExpecting(); got != isExpecting {
				t.Errorf("%s, %s: it is waited for: %v", name, what, got)
			}
		}
		coming := func(number uint64) []byte { return says(number, 1, wire.Joining{Name: "a", Have: wire.HaveUnknown}) }
		hears(t, s, coming(0))
		time.Sleep(comingFor - time.Millisecond)
		hears(t, s, coming(1))
		time.Sleep(comingFor - time.Millisecond)
		want("it has said so twice", true)
		if then.Name != "" {
			hears(t, s, says(7, 2, then))
		}
		time.Sleep(time.Millisecond)
		want("it says no more", false)
		for _, number := range []uint64{1, 0, 1} {
			hears(t, s, coming(number))
			want("that is sent again", false)
		}
		hears(t, s, coming(2))
		want("it says so again", true)
	}
}

// A JOIN of what a receiver was before it began anew changes nothing when it is sent again: neither before nor after sending has begun,
// and however long ago that was put out. One that was away for a while, and says so again itself, is back.
func TestEarlierProcessPutsNobodyOut(t *testing.T) {
	s, _ := turning(t)
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if s.socket, err = udp.New(conn, 1<<16); err != nil {
		t.Fatal(err)
	}
	defer s.socket.Close()
	earlier, live, gone := says(3, 1, wire.Joining{Name: "a"}), says(0, 2, wire.Joining{Name: "a"}), says(0, 3, wire.Joining{Name: "b"})
	want := func(members ...byte) {
		t.Helper()
		var keys [][wire.PublicSize]byte
		for _, member := range members {
			keys = append(keys, publicOf(member))
		}
		got := slices.Collect(maps.Keys(s.joined))
		if len(got) != len(keys) || slices.ContainsFunc(keys, func(key [wire.PublicSize]byte) bool { return s.joined[key] == nil || s.joined[key].isOld }) {
			t.Errorf("%d have joined, want %v", len(got), members)
		}
	}
	hears(t, s, earlier)
	want(1)
	hears(t, s, live)
	want(2)
	hears(t, s, gone)
	s.joined[publicOf(3)].seen = time.Now().Add(-2 * comingFor)
	s.forgetGone()
	want(2)
	for _, again := range [][]byte{earlier, gone} {
		hears(t, s, again)
		want(2)
	}
	hears(t, s, says(1, 3, wire.Joining{Name: "b"}))
	want(2, 3)
	shape, err := algo.ShapeOf(1e6, 1472)
	if err != nil {
		t.Fatal(err)
	}
	if s.rules, err = algo.NewSender(algo.Settings{Shape: shape, Ceiling: 1e6, Window: 100, Patience: time.Second}, time.Now()); err != nil {
		t.Fatal(err)
	}
	p := s.joined[publicOf(2)]
	s.admit(p)
	hears(t, s, earlier)
	if status := s.rules.Member(p.id); status.Outcome != algo.Running || p.isOld {
		t.Errorf("the one that lives is %v, and is put out: %v", status.Outcome, p.isOld)
	}
	want(2, 3)
}
