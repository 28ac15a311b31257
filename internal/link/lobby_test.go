package link

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// visitor is a connection from an address.
type visitor struct {
	net.Conn
	from   net.Addr
	closed atomic.Bool
}

func (v *visitor) RemoteAddr() net.Addr { return v.from }

func (v *visitor) Close() error {
	v.closed.Store(true)
	return nil
}

// crowded is a lobby at a time.
type crowded struct {
	lobby
	now time.Time
}

func newCrowded() *crowded { return &crowded{now: time.Unix(1000, 0)} }

// come has a guest come from an address.
func (c *crowded) come(address string) *guest {
	g := &guest{raw: &visitor{from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 7))}, at: c.now}
	c.receive(g)
	return g
}

func (g *guest) wasClosed() bool { return g.raw.(*visitor).closed.Load() }

// Who is honest comes in even from an address, or among addresses, from which others come all the time and say nothing: at once, if they are
// fewer than have room for as long as an opening may take, and else in some attempts.
func TestLobbyIsOpenToGuestsAmongSilentOnes(t *testing.T) {
	const rounds = 200
	same := func(int) string { return "10.0.0.1" }
	another := func(i int) string { return fmt.Sprintf("11.%d.%d.%d", i>>16, i>>8&255, i&255) }
	for _, test := range []struct {
		name    string
		from    func(i int) string
		rate    int // silent ones, a second
		percent int // of the guests that get in, at least
	}{
		{"of its address, slowly", same, 25, 100},
		{"of its address, fast", same, 200, 12},
		{"of other addresses, slowly", another, 100, 100},
		{"of other addresses, fast", another, 800, 12},
	} {
		c := newCrowded()
		in, came := 0, 0
		silent := func(n int) {
			for range n {
				c.come(test.from(came))
				c.now = c.now.Add(time.Second / time.Duration(test.rate))
				came++
			}
		}
		silent(10 * test.rate)
		for range rounds {
			g := c.come("10.0.0.1")
			silent(test.rate * 3 / 5) // as long as it takes over 600 ms
			if c.letGo(g) {
				in++
			}
			silent(1 + came%17)
		}
		if in*100 < test.percent*rounds {
			t.Errorf("silent ones %s: %d of %d guests get in, want %d %%", test.name, in, rounds, test.percent)
		}
	}
}

// Hundreds that come at once from one address, over a long path, and come again when they are sent away, all get in.
func TestLobbyHasRoomForHundredsOfOneAddress(t *testing.T) {
	const (
		members = 500
		opening = 1200 * time.Millisecond
		step    = 10 * time.Millisecond
	)
	c := newCrowded()
	begun := c.now
	guests, next, waits := make([]*guest, members), make([]time.Time, members), make([]time.Duration, members)
	in := 0
	for ; in < members && c.now.Sub(begun) < 20*time.Second; c.now = c.now.Add(step) {
		for i, g := range guests {
			switch {
			case waits[i] < 0 || g == nil && c.now.Before(next[i]): // it is in, or waits
			case g == nil:
				guests[i] = c.come("10.0.0.1")
			case g.wasClosed():
				waits[i] = min(max(2*waits[i], FirstPause), LongPause)
				guests[i], next[i] = nil, c.now.Add(waits[i]+time.Duration(i)*time.Millisecond/5)
			case c.now.Sub(g.at) >= opening && c.letGo(g):
				waits[i] = -1
				in++
			}
		}
	}
	t.Logf("%d of %d are in after %v", in, members, c.now.Sub(begun))
	if in < members {
		t.Errorf("%d of %d are in after %v", in, members, c.now.Sub(begun))
	}
}

// wantClosed checks how many of some guests were closed.
func wantClosed(t *testing.T, who string, guests []*guest, want int) {
	t.Helper()
	closed := 0
	for _, g := range guests {
		if g.wasClosed() {
			closed++
		}
	}
	if closed != want {
		t.Errorf("of %d guests %s, %d were closed, want %d", len(guests), who, closed, want)
	}
}

// A network of IPv6 may have all places. For others, its guests have to go if it has most, and of those the ones of a host that has most.
func TestLobbyHasRoomForOneNetwork(t *testing.T) {
	c := newCrowded()
	several := func(n int, format string) (guests []*guest) {
		for i := range n {
			guests = append(guests, c.come(fmt.Sprintf(format, i)))
		}
		return guests
	}
	network := several(200, "2001:db8::1:%x")
	var ofOne []*guest
	for range 56 {
		ofOne = append(ofOne, c.come("2001:db8::2"))
	}
	wantClosed(t, "of a network", slices.Concat(network, ofOne), 0)
	others := several(30, "2001:db8:1:%x::1")
	others = append(others, several(20, "10.0.0.%d")...)
	wantClosed(t, "of others", others, 0)
	wantClosed(t, "of the network's other hosts", network, 0)
	wantClosed(t, "of one host", ofOne, 50)
	others = append(others, several(100, "10.0.1.%d")...)
	wantClosed(t, "of others", others, 0)
	wantClosed(t, "of a network", slices.Concat(network, ofOne), 150)
}

// A guest that has what it came for is never closed; one that is closed is told so. While many come and go at once, each is either.
func TestLobbyClosesNobodyWhoIsDone(t *testing.T) {
	const coming, times = 8, 500
	var l lobby
	var at sync.WaitGroup
	for host := range coming {
		at.Go(func() {
			var silent []*guest
			for i := range times {
				g := &guest{raw: &visitor{from: &net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(host%2)), Port: i}}}
				l.receive(g)
				if i%2 == 0 {
					silent = append(silent, g)
				} else if l.letGo(g) {
					defer func() {
						if g.wasClosed() {
							t.Error("one that was done is closed")
						}
					}()
				}
			}
			for _, g := range silent {
				l.letGo(g)
			}
		})
	}
	at.Wait()
	if left := len(l.guests) + len(l.hosts) + len(l.networks); left != 0 {
		t.Errorf("%d guests, and where they came from, are left when all have gone", left)
	}
}
