package receive

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// onLoopback opens a socket of this machine alone.
func onLoopback(t *testing.T) *udp.Socket {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	socket, err := udp.New(conn, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

// tells is an announcement that is sent after a while.
type tells struct {
	after  time.Duration
	number uint64
	size   int
}

// C38: a path counts as too narrow for the larger announcements once several in a row did not come: one is lost now and then on any
// path. One that is sent again by the network, or by somebody, counts no second time.
func TestNarrowPathIsKnownByMoreThanOneLoss(t *testing.T) {
	const large, small, late = 1472, wire.MinDatagram, 500 * time.Millisecond
	const early = 100 * time.Millisecond
	for name, c := range map[string]struct {
		datagram uint16 // of the sender; zero before it has begun
		told     []tells
		want     int
	}{
		"one is lost":             {large, []tells{{0, 2, small}, {late, 3, large}, {0, 4, small}}, large},
		"one is lost before that": {0, []tells{{0, 2, small}, {early, 3, large}, {0, 4, small}}, large},
		"one comes several times": {large, []tells{{0, 2, small}, {early, 2, small}, {early, 2, small}, {early, 2, small}, {early, 2, small}, {early, 3, large}}, large},
		"all are lost":            {large, []tells{{0, 2, small}, {early, 4, small}, {early, 6, small}, {early, 8, small}}, small},
		"there are no larger":     {small, []tells{{0, 2, small}, {late, 3, large}}, small},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ear, mouth := onLoopback(t), onLoopback(t)
			config := Config{Key: make([]byte, 32)}
			group, salt := wire.NewSecret(config.Key, wire.Salt{1}), wire.Salt{1}
			a := wire.Announcement{Datagram: c.datagram, Sender: netip.MustParseAddrPort("127.0.0.1:7"), Name: "object"}
			go func() {
				for _, one := range c.told {
					time.Sleep(one.after)
					_ = mouth.Send(group.Group().Announce(one.number, salt, make([]byte, wire.PublicSize), a, one.size), ear.Addr())
				}
			}()
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			heard, err := listen(ctx, ear, config, newKeys(config), nil)
			if err != nil || heard.Size != c.want {
				t.Errorf("the largest that passes has %d bytes: %v; want %d", heard.Size, err, c.want)
			}
		})
	}
}
