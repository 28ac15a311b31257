package sdk

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// A member that relays may say of those that it feeds that they are too slow. A member does not fail by that: it goes on with whom the managers
// name then, and it fails if they say so, or a session agent does.
func TestWordOfARelayFailsNoMember(t *testing.T) {
	relaying := identity.RelayOf("g", "other")
	for name, tt := range map[string]struct {
		next *groupv1.Assignment // what the managers say then
		want string              // why it fails, if it does
	}{
		"another feeds it":     {feeding(identity.ID{Role: identity.Agent, Name: "agent"}), ""},
		"the managers say so":  {&groupv1.Assignment{Delivery: "d", Ended: true, Reason: "slow"}, "slow"},
		"another relay, again": {feeding(identity.RelayOf("g", "third")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiving(t)
			r.session.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{feeding(relaying)}})
			tries := 0
			err := r.keepTaking(t.Context(), func(_ context.Context, assignment *groupv1.Assignment, parent *groupv1.Neighbour) error {
				if tries++; parent.GetName() != relaying.Name {
					r.update(func() { r.end = &link.End{} })
					return nil
				}
				if tries == 2 {
					r.session.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{tt.next}})
				}
				return r.givenUp(assignment)
			})
			var failed *DeliveryError
			if errors.As(err, &failed) != (tt.want != "") || failed != nil && failed.Reason != tt.want {
				t.Errorf("it ends with %v, want the reason %q", err, tt.want)
			}
			if tries < 2 || r.lost != "" {
				t.Errorf("after %d tries it says that it lost %q", tries, r.lost)
			}
		})
	}
	if err := newReceiving(t).givenUp(feeding(theAgent)); !fatal(err) {
		t.Errorf("by the word of a session agent: %v, want it failed", err)
	}
	late := feeding(relaying)
	late.Ended = true // the managers decide nothing more
	if err := newReceiving(t).givenUp(late); !fatal(err) {
		t.Errorf("by the word of a relay after the end: %v, want it failed", err)
	}
}

// Who refuses a link, or ends it, as the member is too slow has given it up, by whichever word.
func TestWhoSaysSlowGivesUp(t *testing.T) {
	for _, err := range []error{&relay.Refusal{Reason: relay.Slow}, &link.Ended{Reason: relay.Slow}} {
		if !isSlow(err) {
			t.Errorf("%v is not taken as that", err)
		}
	}
	for _, err := range []error{nil, &relay.Refusal{Reason: relay.Stale}, &link.Ended{Reason: relay.Moved}} {
		if isSlow(err) {
			t.Errorf("%v is taken as that", err)
		}
	}
}

func feeding(parent identity.ID) *groupv1.Assignment {
	return &groupv1.Assignment{Delivery: "d", Parent: &groupv1.Neighbour{Role: string(parent.Role), Name: parent.Name, Addresses: []string{"127.0.0.1:1"}}}
}

func newReceiving(t *testing.T) *receiving {
	client := &Client{log: slog.New(slog.DiscardHandler), contacts: link.NewContacts(&net.Dialer{}, identity.TLS{}, link.AllKeep)}
	t.Cleanup(client.contacts.Close)
	session := &Session{client: client}
	session.attendance = newAttendance(client)
	return &receiving{session: session, id: "d", changed: make(chan struct{})}
}
