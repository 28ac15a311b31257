package paper

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/internal/multicast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// A LAN that was away and is back by the end is not one that lacks the file.
func TestLANThatIsBackIsNotDropped(t *testing.T) {
	named, other := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.1.0/24")
	o := &outgoing{station: &station{log: slog.New(slog.DiscardHandler)}}
	for _, action := range []algo.Action{algo.Joined{LAN: other}, algo.Dropped{LAN: named}, algo.Dropped{LAN: other}, algo.Joined{LAN: named}} {
		if _, err := o.perform(action); err != nil {
			t.Fatal(err)
		}
	}
	if want := []netip.Prefix{other}; !slices.Equal(o.sent.Dropped, want) || !slices.Equal(o.sent.Joined, want) {
		t.Errorf("dropped: %v, joined: %v", o.sent.Dropped, o.sent.Joined)
	}
}

// An ACK that cannot be sent is like one that is lost: others in the LAN have theirs, and the server its timeout.
func TestACKThatCannotBeSent(t *testing.T) {
	at := multicast.Place{Group: netip.MustParseAddrPort("239.7.7.7:7431"), Interface: "lo"}
	s, err := open(at, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.mouth.Close(); err != nil {
		t.Fatal(err)
	}
	i := &incoming{station: s}
	if over, err := i.perform(algo.Multicast{Packet: wire.Packet{SN: 1, Type: wire.ACK, LWSN: 1}}); over || err != nil || i.got.ACKs != 0 {
		t.Errorf("over: %v, %v, after %d ACKs", over, err, i.got.ACKs)
	}
}
