package udp_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/udp"
)

// Datagrams that come one at a time are read together by a socket that gathers, and none comes later for it than the others.
func TestGatheredAreReadTogether(t *testing.T) {
	const count, spacing = 200, 250 * time.Microsecond
	s, from := open(t), open(t)
	s.Gather()
	began := time.Now()
	go func() {
		for range count {
			_ = from.Send([]byte("x"), s.Addr())
			_ = unix.Nanosleep(&unix.Timespec{Nsec: spacing.Nanoseconds()}, nil) // as exact as the kernel: Go's sleep is not
		}
	}()
	if err := s.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	came, reads := 0, 0
	for came < count {
		if err := s.ReceiveOnce(func([]byte, netip.AddrPort) { came++ }); err != nil {
			t.Fatal(came, err)
		}
		reads++
	}
	// Between two reads of all that is there is a millisecond; several may be needed for that.
	if took := time.Since(began); reads > 2*int(took/time.Millisecond) {
		t.Errorf("%d datagrams were read by %d calls in %v", came, reads, took)
	}
}

// There is no pause where one would fill the kernel's buffer, nor after that while it may be so again.
func TestPauses(t *testing.T) {
	const buffer = 160_000 // a pause may bring 10,000
	for name, c := range map[string]struct {
		reads []int // bytes; negative if the room for them was full, so that there may be more
		apart time.Duration
		want  bool
	}{
		"a few have come":                   {[]int{1000}, 0, true},
		"there may be more":                 {[]int{-9000}, 0, false},
		"all of them have come":             {[]int{-9000, 1000}, 0, true},
		"more than a pause may bring":       {[]int{-9000, 1001}, 0, false},
		"soon after":                        {[]int{10_001, 1000, 1000}, time.Millisecond, false},
		"after long, they come as fast":     {append([]int{10_001}, slices.Repeat([]int{1000}, udp.BriskReads)...), 99 * time.Microsecond, false},
		"after long, they come less fast":   {append([]int{10_001}, slices.Repeat([]int{1000}, udp.BriskReads)...), 101 * time.Microsecond, true},
		"after very long, they come faster": {append([]int{10_001}, slices.Repeat([]int{1000}, 2*udp.BriskReads)...), 99 * time.Microsecond, false},
	} {
		if got := udp.Pauses(buffer, c.apart, c.reads); got != c.want {
			t.Errorf("%s: it pauses: %v", name, got)
		}
	}
}

// When its deadline has passed, a socket reads nothing more, even if there is something; another has it read that.
func TestDeadlineGoesFirst(t *testing.T) {
	s, from := open(t), open(t)
	if err := from.Send([]byte("x"), s.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := s.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	none := func([]byte, netip.AddrPort) { t.Error("something was read") }
	if err := s.ReceiveOnce(none); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	if err := s.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	came := 0
	if err := s.ReceiveOnce(func([]byte, netip.AddrPort) { came++ }); err != nil || came != 1 {
		t.Errorf("%d came, %v", came, err)
	}
}

// What comes between the look at what is there and the wait for more is read at once, also if others came before.
func TestWhatComesBeforeTheWaitIsRead(t *testing.T) {
	s, from := open(t), open(t)
	send := func() {
		if err := from.Send([]byte("x"), s.Addr()); err != nil {
			t.Error(err)
		}
	}
	go func() {
		time.Sleep(10 * time.Millisecond) // so that it waits
		send()
	}()
	for _, comes := range []func(){nil, send, send} {
		if err := s.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := s.ReadAfter(comes); err != nil {
			t.Fatal(err)
		}
	}
}

// A deadline ends those who wait already; what comes later is not lost.
func TestDeadlineEndsWaiting(t *testing.T) {
	s, from := open(t), open(t)
	for range 50 {
		ended := make(chan error)
		go func() { ended <- s.ReceiveOnce(func([]byte, netip.AddrPort) {}) }()
		time.Sleep(time.Millisecond) // it waits, most of the times
		if err := s.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("it ended with %v", err)
		}
		if err := s.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- s.ReceiveOnce(func([]byte, netip.AddrPort) {}) }()
		if err := errors.Join(from.Send([]byte("x"), s.Addr()), <-ended); err != nil {
			t.Fatal(err)
		}
	}
}

// When Close returns, the port can be taken again, whether somebody waited or not.
func TestClosedPortIsFree(t *testing.T) {
	for range 20 {
		s := open(t)
		ended := make(chan error)
		go func() { ended <- s.Receive(func([]byte, netip.AddrPort) {}, func() {}) }()
		time.Sleep(time.Millisecond)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Send([]byte("x"), s.Addr()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("sending ended with %v", err)
		}
		if err := s.SetReadDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("setting a deadline ended with %v", err)
		}
	}
}

// A datagram can be empty, and an address can be one of IPv4 in IPv6; one of the other family is refused.
func TestWhereDatagramsCanGo(t *testing.T) {
	s := open(t)
	if err := s.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, to := range []netip.AddrPort{s.Addr(), netip.AddrPortFrom(netip.AddrFrom16(s.Addr().Addr().As16()), s.Addr().Port())} {
		if err := s.Send(nil, to); err != nil {
			t.Errorf("to %v: %v", to, err)
		}
		if err := s.ReceiveOnce(func([]byte, netip.AddrPort) { t.Error("an empty datagram was handed on") }); err != nil {
			t.Error(err)
		}
	}
	if err := s.Send([]byte("x"), netip.MustParseAddrPort("[::1]:9")); !errors.As(err, new(*net.AddrError)) {
		t.Errorf("to IPv6: %v", err)
	}
	both := openAt(t, "udp", "[::]:0")
	if err := both.Send([]byte("one"), s.Addr()); err != nil {
		t.Fatal(err)
	}
	came := ""
	if err := s.ReceiveOnce(func(datagram []byte, _ netip.AddrPort) { came = string(datagram) }); err != nil || came != "one" {
		t.Errorf("%q came, %v", came, err)
	}
}
