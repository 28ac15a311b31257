package lab_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/udp"
)

// A group reaches LANs behind routers, and is answered from there; without multicast routes that is not so.
func TestMulticastIsRouted(t *testing.T) {
	l := labtest.New(t, 1)
	near, middle, far := l.LAN("near"), l.LAN("middle"), l.LAN("far")
	first, second := l.Router("first"), l.Router("second")
	server, client := l.Host("server"), l.Host("client")
	for _, join := range []struct {
		host *lab.Host
		lan  *lab.LAN
	}{{server, near}, {first, near}, {first, middle}, {second, middle}, {second, far}, {client, far}} {
		l.Link(join.host, join.lan, link.Shape{})
	}
	labtest.Start(t, l)
	place := multicast.Place{Group: netip.MustParseAddrPort("239.7.7.7:4000"), Interface: "eth0", TTL: 3}
	open := func(h *lab.Host) (mouth, ear *udp.Socket) {
		if err := h.Do(func() (err error) {
			if mouth, err = multicast.Open(place, 0); err == nil {
				ear, err = multicast.Join(place)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { mouth.Close(); ear.Close() })
		return mouth, ear
	}
	mouth, serverEar := open(server)
	answer, clientEar := open(client)
	hears := func(ear *udp.Socket, speaker *udp.Socket) bool {
		for range 20 {
			if err := speaker.Send([]byte("here"), place.Group); err != nil {
				t.Fatal(err)
			}
			ear.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			var from netip.AddrPort
			if err := ear.ReceiveOnce(func(_ []byte, at netip.AddrPort) { from = at }); err == nil {
				return from == speaker.Addr()
			}
		}
		return false
	}
	if hears(clientEar, mouth) {
		t.Error("multicast passes routers that do not route it")
	}
	for _, router := range []*lab.Host{first, second} {
		if err := router.RouteMulticast(); err != nil {
			t.Fatal(err)
		}
	}
	if !hears(clientEar, mouth) || !hears(serverEar, answer) {
		t.Error("multicast does not pass routers")
	}
}
