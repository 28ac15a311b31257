package paper

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
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
