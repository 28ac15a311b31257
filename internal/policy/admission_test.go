package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/policy"
)

// silent returns a place of a client that has brought nothing for so many seconds.
func silent(client string, minimum bytesize.Size, priority, seconds int) policy.Place {
	return policy.Place{Client: client, Share: policy.Share{Minimum: minimum, Priority: priority}, Silent: time.Duration(seconds) * time.Second}
}

// A client that waits in a queue gets the places of clients that bring nothing, and no other's; as few as it takes, and none if all
// of them are not enough.
func TestPlacesOfThoseThatBringNothing(t *testing.T) {
	busy, idle, quiet, first := silent("busy", 50, 0, 14), silent("idle", 20, 0, 60), silent("quiet", 30, 0, 15), silent("first", 50, 2, 60)
	for _, c := range []struct {
		name      string
		admission policy.Admission
		wants     policy.Share
		others    []policy.Place
		fits      bool
		given     []string
	}{
		{"there is room", policy.Queue, policy.Share{Minimum: 20}, []policy.Place{busy, quiet}, true, nil},
		{"the longest silent goes first", policy.Queue, policy.Share{Minimum: 20}, []policy.Place{busy, quiet, idle}, true, []string{"idle"}},
		{"no more than it takes", policy.Queue, policy.Share{Minimum: 30}, []policy.Place{busy, quiet, idle}, true, []string{"quiet"}},
		{"both", policy.Queue, policy.Share{Minimum: 50}, []policy.Place{busy, quiet, idle}, true, []string{"idle", "quiet"}},
		{"all are not enough", policy.Queue, policy.Share{Minimum: 60}, []policy.Place{busy, quiet, idle}, false, nil},
		{"of who brings something", policy.Queue, policy.Share{Minimum: 60}, []policy.Place{busy}, false, nil},
		{"of who comes first", policy.Queue, policy.Share{Minimum: 60, Priority: 1}, []policy.Place{first}, false, nil},
		{"of who comes later", policy.Queue, policy.Share{Minimum: 60, Priority: 2}, []policy.Place{first}, true, []string{"first"}},
		{"nobody waits who is refused", policy.Refuse, policy.Share{Minimum: 60}, []policy.Place{quiet, idle}, false, nil},
		{"who needs nothing, where too much was promised", policy.Queue, policy.Share{}, []policy.Place{busy, first, idle}, true, nil},
		{"all are let in", policy.Admit, policy.Share{Minimum: 60}, []policy.Place{busy, quiet, idle}, true, nil},
	} {
		room := policy.Policy{Link: 100, Admission: c.admission}.RoomFor(c.wants, c.others)
		if room.Fits != c.fits || !slices.Equal(room.Given, c.given) {
			t.Errorf("%s: %+v, want fits %t, given %q", c.name, room, c.fits, c.given)
		}
	}
}

// However clients stand: a client that is let in fits, and takes no place that it need not take, nor that of a client that brings
// something or comes first. A client that is not let in would not fit with all the places that it could take.
func TestPlacesOfAnyClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := policy.Policy{Link: 100, Admission: policy.Queue}
		share := policy.Share{Minimum: bytesize.Size(rapid.IntRange(1, 100).Draw(t, "minimum")), Priority: rapid.IntRange(0, 2).Draw(t, "priority")}
		others, least, sum := make(map[string]policy.Place), share.Minimum, share.Minimum
		var all []policy.Place
		for i := range rapid.IntRange(0, 8).Draw(t, "others") {
			other := silent(fmt.Sprint(i), bytesize.Size(rapid.IntRange(0, 60).Draw(t, "its minimum")), rapid.IntRange(0, 2).Draw(t, "its priority"), rapid.IntRange(0, 30).Draw(t, "silent"))
			others[other.Client], all, sum = other, append(all, other), sum+other.Minimum
			if other.Silent < policy.PlaceFor || other.Priority > share.Priority {
				least += other.Minimum
			}
		}
		room := now.RoomFor(share, all)
		if want := least <= now.Link; room.Fits != want {
			t.Fatalf("%+v: %+v, want fits %t", all, room, want)
		}
		for _, name := range room.Given {
			if one := others[name]; one.Silent < policy.PlaceFor || one.Priority > share.Priority {
				t.Errorf("%+v gives up its place for %+v", one, share)
			}
			sum -= others[name].Minimum
		}
		for _, name := range room.Given {
			if sum+others[name].Minimum <= now.Link {
				t.Errorf("%+v: %s need not give up its place", all, name)
			}
		}
		if room.Fits && sum > now.Link {
			t.Errorf("%+v: %+v is let in, and %v are taken", all, share, sum)
		}
	})
}
