package lab_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

func TestRoutesOverThreeRouters(t *testing.T) {
	l := labtest.New(t, 1)
	a, b := l.Host("a"), l.Host("b")
	r1, r2, r3 := l.Router("r1"), l.Router("r2"), l.Router("r3")
	hop := link.Shape{Delay: 5 * time.Millisecond}
	l.Link(a, r1, hop)
	l.Link(r1, r2, hop)
	l.Link(r2, r3, link.Shape{}) // one plain cable among them
	l.Link(r3, b, hop)
	labtest.Start(t, l)
	to, conn := echo(t, b), packets(t, a, "9")
	if err := ttl(conn, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.WriteTo([]byte("too few hops"), to); err != nil {
		t.Fatal(err)
	}
	if got := receiveAny(conn, 200*time.Millisecond); got {
		t.Error("a packet crossed three routers with a TTL of 3")
	}
	if err := ttl(conn, 4); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, string) {
		got := median(roundTrips(t, conn, to, 100, 9))
		return got >= 30*time.Millisecond && got < 33*time.Millisecond, got.String() // 1 ms for each shaped link
	})
}

func ttl(conn net.PacketConn, hops int) error { return ipv4.NewPacketConn(conn).SetTTL(hops) }

func receiveAny(conn net.PacketConn, within time.Duration) bool {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	_, _, err := conn.ReadFrom(make([]byte, 1500))
	return err == nil
}

func TestMulticastReachesAllHostsAndOnlyMembers(t *testing.T) {
	const datagrams = 100
	l := labtest.New(t, 1)
	lan := l.LAN("lan")
	sender := l.Host("sender")
	members, others := l.Hosts("member", 4), l.Hosts("other", 2)
	shaped := link.Shape{Rate: 50 * link.Mbit, Delay: time.Millisecond}
	l.Link(sender, lan, link.Shape{})
	for i, host := range slices.Concat(members, others) {
		l.Link(host, lan, []link.Shape{{}, shaped}[i%2]) // plain and shaped mixed
	}
	labtest.Start(t, l)
	group := net.UDPAddr{IP: net.IPv4(239, 7, 7, 7), Port: 4000}
	for _, host := range members {
		join(t, host, packets(t, host, "4000"), &group)
	}
	sinks := map[*lab.Host]net.PacketConn{}
	for _, host := range slices.Concat(members, others) {
		sinks[host] = packets(t, host, "4001")
	}
	group.Port = 4001
	for _, host := range members {
		join(t, host, sinks[host], &group)
	}
	conn := packets(t, sender, "4001")
	sendNumbered(t, conn, &group, 500, datagrams, 100*time.Microsecond)
	for _, host := range members {
		if got := len(receiveNumbered(t, sinks[host], 300*time.Millisecond)); got != datagrams {
			t.Errorf("%s received %d of %d", host.Name(), got, datagrams)
		}
	}
	for _, host := range others {
		if receiveAny(sinks[host], 100*time.Millisecond) {
			t.Errorf("%s is no member and received", host.Name())
		}
	}
}

func join(t *testing.T, host *lab.Host, conn net.PacketConn, group *net.UDPAddr) {
	t.Helper()
	device, err := host.Interface()
	if err != nil {
		t.Fatal(err)
	}
	err = host.Do(func() error { return ipv4.NewPacketConn(conn).JoinGroup(device, group) })
	if err != nil {
		t.Fatalf("%s joins %s: %v", host.Name(), group, err)
	}
}

func TestLANsJoinedByAShapedTrunkShareMulticast(t *testing.T) {
	l := labtest.New(t, 1)
	west, east := l.LAN("west"), l.LAN("east")
	a, b := l.Host("a"), l.Host("b")
	l.Link(a, west, link.Shape{})
	l.Link(b, east, link.Shape{})
	trunk := l.Link(west, east, link.Shape{Delay: 20 * time.Millisecond, Rate: 10 * link.Mbit})
	labtest.Start(t, l)
	group := net.UDPAddr{IP: net.IPv4(239, 7, 7, 7), Port: 4001}
	sink := packets(t, b, "4001")
	join(t, b, sink, &group)
	sendNumbered(t, packets(t, a, "4001"), &group, 500, 10, 0)
	if got := len(receiveNumbered(t, sink, 300*time.Millisecond)); got != 10 {
		t.Errorf("%d of 10 datagrams crossed the trunk", got)
	}
	if got := trunk.From(west).Read().Count.Delivered.Packets; got < 10 {
		t.Errorf("the trunk carried %d packets", got)
	}
}

func TestMTUHoldsOnEveryKindOfLink(t *testing.T) {
	for name, shape := range map[string]link.Shape{
		"plain":  {MTU: 900},
		"shaped": {MTU: 900, Delay: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			_, a, b := pair(t, 1, shape)
			conn, err := a.Dial(context.Background(), "udp4", b.At(9), doNotFragment)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write(make([]byte, 900-udpHeaders)); err != nil {
				t.Errorf("a packet of the MTU: %v", err)
			}
			if _, err := conn.Write(make([]byte, 901-udpHeaders)); err == nil {
				t.Error("a packet above the MTU was taken")
			}
		})
	}
}

func doNotFragment(descriptor int) error {
	return unix.SetsockoptInt(descriptor, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
}

func TestRoutesChooseTheCongestionControl(t *testing.T) {
	l := labtest.New(t, 1)
	a, b, r := l.Host("a"), l.Host("b"), l.Router("r")
	l.Link(a, r, link.Shape{Delay: time.Millisecond})
	l.Link(r, b, link.Shape{Delay: time.Millisecond})
	labtest.Start(t, l)
	listener, err := b.Listen(t.Context(), "tcp4", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	own, err := a.Listen(t.Context(), "tcp4", a.At(80))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, want := range []string{"reno", "cubic"} {
		if err := a.SetCongestion(want); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{b.At(80), own.Addr().String()} {
			conn, err := a.Dial(t.Context(), "tcp4", to)
			if err != nil {
				t.Fatal(err)
			}
			if got := congestionOf(t, conn); got != want {
				t.Errorf("a connection to %s uses %s, want %s", to, got, want)
			}
			conn.Close()
		}
	}
}

func congestionOf(t *testing.T, conn net.Conn) (name string) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(descriptor uintptr) {
		name, err = unix.GetsockoptString(int(descriptor), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(name, "\x00")
}
