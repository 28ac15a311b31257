package udp_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/udp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB) *udp.Socket { return openAt(t, "udp", "127.0.0.1:0") }

func openAt(t testing.TB, network, address string) *udp.Socket {
	t.Helper()
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := udp.New(conn, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// numbered returns a run of datagrams that begin with their number; the last one is shorter.
func numbered(from, count, size int, to netip.AddrPort) udp.Run {
	run := udp.Run{Segment: size, To: to}
	for i := range count {
		length := size
		if i == count-1 {
			length = size/2 + 4
		}
		run.Bytes = append(run.Bytes, make([]byte, length)...)
		binary.BigEndian.PutUint32(run.Bytes[i*size:], uint32(from+i))
	}
	return run
}

// received returns the numbers and sizes of datagrams that come, until there are so many or none comes for a while.
func received(t *testing.T, s *udp.Socket, want int) (numbers, sizes []int) {
	t.Helper()
	s.SetReadDeadline(time.Now().Add(5 * time.Second))
	err := s.Receive(func(datagram []byte, _ netip.AddrPort) {
		numbers, sizes = append(numbers, int(binary.BigEndian.Uint32(datagram))), append(sizes, len(datagram))
	}, func() {
		if len(numbers) >= want {
			s.SetReadDeadline(time.Now())
		}
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("received %d: %v", len(numbers), err)
	}
	return numbers, sizes
}

// Runs and single datagrams to several places arrive as they were, whether the kernel cuts and
// merges them or not, and whichever function sends them.
func TestRunsArriveAsDatagrams(t *testing.T) {
	ways := map[string]func(*udp.Socket, []udp.Run) error{
		"waiting": func(s *udp.Socket, runs []udp.Run) (err error) {
			for _, run := range runs {
				err = errors.Join(err, s.SendRun(run))
			}
			return err
		},
		"never waiting": func(s *udp.Socket, runs []udp.Run) error {
			for outbox := udp.NewOutbox(s); len(runs) > 0; {
				sent, err := outbox.TrySend(runs)
				if err != nil {
					return err
				}
				runs = runs[sent:]
			}
			return nil
		},
	}
	for name, send := range ways {
		for _, offloads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, offloads %v", name, offloads), func(t *testing.T) {
				from, ears := open(t), []*udp.Socket{open(t), open(t)}
				if !offloads {
					for _, s := range append(ears, from) {
						s.WithoutOffloads()
					}
				}
				if got := from.Offload(); got != (udp.Offload{Segment: offloads, Merge: offloads}) {
					t.Fatalf("offloads are %+v", got)
				}
				var runs []udp.Run
				for _, ear := range ears {
					runs = append(runs, numbered(0, 40, 1000, ear.Addr()), numbered(40, 1, 300, ear.Addr()), numbered(41, 9, 1232, ear.Addr()))
				}
				if err := send(from, runs); err != nil {
					t.Fatal(err)
				}
				for i, ear := range ears {
					numbers, sizes := received(t, ear, 50)
					if len(numbers) != 50 || !slices.IsSorted(numbers) {
						t.Fatalf("place %d received %v", i, numbers)
					}
					if got := []int{sizes[0], sizes[39], sizes[40], sizes[41], sizes[49]}; !slices.Equal(got, []int{1000, 504, 154, 1232, 620}) {
						t.Errorf("place %d received sizes %v", i, got)
					}
				}
			})
		}
	}
}

// A run takes datagrams of its size; it ends with a shorter one, and at the number that the kernel can cut.
func TestRunTakes(t *testing.T) {
	run := udp.Run{Segment: 1000}
	for count := range udp.Longest(1000) {
		if !run.Takes(1000) || run.Takes(1001) || run.Count() != count {
			t.Fatalf("a run of %d, counted as %d, takes 1000: %v, 1001: %v", count, run.Count(), run.Takes(1000), run.Takes(1001))
		}
		run.Bytes = append(run.Bytes, make([]byte, 1000)...)
	}
	if run.Takes(1) {
		t.Errorf("a run of %d takes another", run.Count())
	}
	if short := (udp.Run{Segment: 1000, Bytes: make([]byte, 1500)}); short.Takes(1) || short.Count() != 2 {
		t.Errorf("after a short one, of %d, a run takes another", short.Count())
	}
}

// If a network carries less than the size of a run's datagrams, they are sent one by one, in fragments.
func TestRunBeyondTheMTU(t *testing.T) {
	l := labtest.New(t, 1)
	sender, member := l.Host("sender"), l.Host("member")
	l.Link(sender, member, link.Shape{})
	labtest.Start(t, l)
	sockets := make(map[*lab.Host]*udp.Socket)
	for _, host := range []*lab.Host{sender, member} {
		if err := host.Do(func() (err error) {
			sockets[host], err = narrowed(host, 1000)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sockets[host].Close() })
	}
	runs := []udp.Run{numbered(0, 10, 1232, sockets[member].Addr()), numbered(10, 10, 1232, sockets[member].Addr())}
	for outbox := udp.NewOutbox(sockets[sender]); len(runs) > 0; runs = runs[1:] {
		if sent, err := outbox.TrySend(runs[:1]); sent != 1 || err != nil {
			t.Fatalf("sent %d: %v", sent, err)
		}
	}
	if numbers, sizes := received(t, sockets[member], 20); len(numbers) != 20 || sizes[0] != 1232 {
		t.Errorf("received %v of %v", numbers, sizes)
	}
	if sockets[sender].Offload().Segment {
		t.Error("the next run would be tried as one again")
	}
}

// narrowed sets the MTU of the host's interface, and returns a socket on it.
func narrowed(host *lab.Host, mtu int) (*udp.Socket, error) {
	device, err := host.Interface()
	if err != nil {
		return nil, err
	}
	found, err := netlink.LinkByIndex(device.Index)
	if err != nil {
		return nil, err
	}
	if err := netlink.LinkSetMTU(found, mtu); err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: host.Addr().AsSlice()})
	if err != nil {
		return nil, err
	}
	return udp.New(conn, 4<<20)
}

// Sending on a closed socket gives an error.
func TestOutboxOfAClosedSocket(t *testing.T) {
	from, ear := open(t), open(t)
	from.Close()
	if sent, err := udp.NewOutbox(from).TrySend([]udp.Run{numbered(0, 3, 100, ear.Addr())}); sent != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("sent %d: %v", sent, err)
	}
}

// Close ends Receive.
func TestCloseEndsReceive(t *testing.T) {
	s := open(t)
	ended := make(chan error)
	go func() { ended <- s.Receive(func([]byte, netip.AddrPort) {}, func() {}) }()
	s.Close()
	if err := <-ended; err != nil {
		t.Errorf("Receive ended with %v", err)
	}
}

// The arrival of a datagram is told by the monotonic clock: if the wall clock is set forward or back, before the datagram comes or
// while it waits, nobody seems silent for that long.
func TestArrivalIsByTheClockThatNobodySets(t *testing.T) {
	s, from := open(t), open(t)
	began := time.Now()
	if err := from.Send([]byte("x"), s.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := s.SetReadDeadline(began.Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var at time.Time
	if err := s.ReceiveOnce(func([]byte, netip.AddrPort) { at = s.Arrived() }); err != nil {
		t.Fatal(err)
	}
	// A time that has lost its monotonic part is the same instant, but another value.
	if at == at.Round(0) { //nolint:staticcheck // Equal looks at the instant alone
		t.Errorf("what came at %v is known by the wall clock alone", at)
	}
	if at.Sub(began) < -time.Millisecond || time.Since(at) < 0 {
		t.Errorf("what was sent %v ago came %v ago", time.Since(began), time.Since(at))
	}
	for name, c := range map[string]struct{ stamped, waited time.Duration }{
		"it waited":                       {20 * time.Millisecond, 20 * time.Millisecond},
		"the clock was set forward":       {time.Hour, 0},
		"the clock was set back":          {-time.Hour, 0},
		"the clock was set back a little": {-time.Millisecond, 0},
	} {
		now := time.Now()
		if got, want := udp.Arrival(now.Round(0).Add(-c.stamped), now), now.Add(-c.waited); got != want {
			t.Errorf("%s: it came at %v, want %v", name, got, want)
		}
	}
	if now := time.Now(); udp.Arrival(time.Time{}, now) != now {
		t.Error("what has no stamp did not come when it was read")
	}
}

// Who sent a datagram is told as it is for any other socket.
func TestWhoSentADatagram(t *testing.T) {
	for network, address := range map[string]string{"udp4": "127.0.0.1:0", "udp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			ear := openAt(t, network, address)
			from, err := net.DialUDP(network, nil, net.UDPAddrFromAddrPort(ear.Addr()))
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			if _, err := from.Write([]byte("one")); err != nil {
				t.Fatal(err)
			}
			err = ear.ReceiveOnce(func(datagram []byte, sender netip.AddrPort) {
				if want := from.LocalAddr().(*net.UDPAddr).AddrPort(); sender != want || string(datagram) != "one" {
					t.Errorf("%q comes from %v, want %v", datagram, sender, want)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// An address that is good on one interface alone names it.
func TestZoneIsTheNameOfAnInterface(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for index, want := range map[uint32]string{0: "", uint32(all[0].Index): all[0].Name, 1 << 30: "1073741824"} {
		for range 2 {
			if got := udp.Zone(index); got != want {
				t.Errorf("zone %d is called %q, want %q", index, got, want)
			}
		}
	}
}
