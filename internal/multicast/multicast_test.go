package multicast_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/udp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var group = netip.MustParseAddrPort("239.7.7.7:4000")

// on is the place of a group at the host's own interface.
func on(t *testing.T, host *lab.Host, group netip.AddrPort) multicast.Place {
	t.Helper()
	device, err := host.Interface()
	if err != nil {
		t.Fatal(err)
	}
	return multicast.Place{Group: group, Interface: device.Name}
}

func join(t *testing.T, host *lab.Host, group netip.AddrPort) *udp.Socket {
	t.Helper()
	return enter(t, host, func(p multicast.Place) (*udp.Socket, error) { return multicast.Join(p) }, group)
}

func open(t *testing.T, host *lab.Host, group netip.AddrPort) *udp.Socket {
	t.Helper()
	return enter(t, host, func(p multicast.Place) (*udp.Socket, error) { return multicast.Open(p, 0) }, group)
}

func enter(t *testing.T, host *lab.Host, with func(multicast.Place) (*udp.Socket, error), group netip.AddrPort) (s *udp.Socket) {
	t.Helper()
	place := on(t, host, group)
	err := host.Do(func() (err error) {
		s, err = with(place)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// numbered returns a run of datagrams that begin with their number.
func numbered(count, size int, to netip.AddrPort) udp.Run {
	run := udp.Run{Segment: size, To: to, Bytes: make([]byte, count*size)}
	for i := range count {
		binary.BigEndian.PutUint32(run.Bytes[i*size:], uint32(i))
	}
	return run
}

// received returns the numbers of what comes until all are there, or nothing does for a while.
func received(t *testing.T, s *udp.Socket, want int) (numbers []int, from netip.AddrPort) {
	t.Helper()
	s.SetReadDeadline(time.Now().Add(5 * time.Second))
	err := s.Receive(func(datagram []byte, source netip.AddrPort) {
		numbers, from = append(numbers, int(binary.BigEndian.Uint32(datagram))), source
	}, func() {
		if len(numbers) >= want {
			s.SetReadDeadline(time.Now())
		}
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("received %d: %v", len(numbers), err)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), from
}

// A run goes to all that joined, over plain cables, where the kernel may hand it over whole,
// and over shaped ones, which carry single packets.
func TestRunReachesAllWhoJoined(t *testing.T) {
	l := labtest.New(t, 1)
	lan, sender, members := l.LAN("lan"), l.Host("sender"), l.Hosts("member", 4)
	l.Link(sender, lan, link.Shape{})
	for i, host := range members {
		l.Link(host, lan, []link.Shape{{}, {Rate: 100 * link.Mbit, Queue: link.Packets(200)}}[i%2])
	}
	labtest.Start(t, l)
	var ears []*udp.Socket
	for _, host := range members {
		ears = append(ears, join(t, host, group))
	}
	mouth := open(t, sender, group)
	const count = 44
	if err := mouth.SendRun(numbered(count, 1472, group)); err != nil {
		t.Fatal(err)
	}
	t.Logf("offloads: %+v", mouth.Offload())
	for i, ear := range ears {
		got, from := received(t, ear, count)
		if len(got) != count || from != mouth.Addr() {
			t.Errorf("%s received %d of %d datagrams, from %v; they are from %v", members[i].Name(), len(got), count, from, mouth.Addr())
		}
	}
}

// Two groups, same port, no cross-talk; and a socket of its own hears no group at all.
func TestGroupsOnOnePortDoNotHearEachOther(t *testing.T) {
	l := labtest.New(t, 1)
	lan, sender, member := l.LAN("lan"), l.Host("sender"), l.Host("member")
	l.Link(sender, lan, link.Shape{})
	l.Link(member, lan, link.Shape{})
	labtest.Start(t, l)
	other := netip.MustParseAddrPort("239.7.7.8:4000")
	ears := map[netip.AddrPort]*udp.Socket{group: join(t, member, group), other: join(t, member, other)}
	own := open(t, member, group)
	mouth := open(t, sender, group)
	for n, to := range []netip.AddrPort{group, other, own.Addr()} {
		if err := mouth.Send(binary.BigEndian.AppendUint32(nil, uint32(n)), to); err != nil {
			t.Fatal(err)
		}
	}
	for n, to := range []netip.AddrPort{group, other} {
		if got, _ := received(t, ears[to], 1); !slices.Equal(got, []int{n}) {
			t.Errorf("the one that joined %v received %v", to, got)
		}
	}
	if got, _ := received(t, own, 1); !slices.Equal(got, []int{2}) {
		t.Errorf("the one that joined nothing received %v", got)
	}
}

func TestPlacesThatCannotBe(t *testing.T) {
	lo := "lo"
	for want, place := range map[string]multicast.Place{
		"is no group":  {Group: netip.MustParseAddrPort("10.0.0.1:4000"), Interface: lo},
		"a port":       {Group: netip.MustParseAddrPort("239.0.0.1:0"), Interface: lo},
		"no interface": {Group: group},
		"TTL of 300":   {Group: group, Interface: lo, TTL: 300},
		"nowhere0":     {Group: group, Interface: "nowhere0"},
	} {
		if _, err := multicast.Join(place); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("join %+v: %v, want %q", place, err, want)
		}
		if _, err := multicast.Open(place, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %+v: %v, want %q", place, err, want)
		}
	}
}

// What is closed ends its Receive.
func TestCloseEndsReceive(t *testing.T) {
	s, err := multicast.Join(multicast.Place{Group: group, Interface: loopback(t)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Receive(func([]byte, netip.AddrPort) {}, func() {}) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Receive ended with %v", err)
	}
}

func loopback(t *testing.T) string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Flags&net.FlagLoopback != 0 {
			return one.Name
		}
	}
	t.Fatal("this machine has no loopback")
	return ""
}

// Of several addresses of an interface the one that was asked for is the socket's.
func TestOwnAddressIsTheOneThatIsNamed(t *testing.T) {
	for named, want := range map[string]string{"": "127.0.0.1", "127.0.0.9": "127.0.0.9", "::1": "127.0.0.1"} {
		address, _ := netip.ParseAddr(named)
		s, err := multicast.Open(multicast.Place{Group: group, Interface: loopback(t), Address: address}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Addr().Addr().String(); got != want {
			t.Errorf("with %q it is %s, want %s", named, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
