package sdk

import (
	"errors"
	"net"
	"sync"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// A link may last for longer than a capability: each of its stripes shows the one that the session has when the stripe is opened.
func TestStripesShowTheCapabilityOfTheirTime(t *testing.T) {
	identities := newStriping(t, nil, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	var refusing sync.WaitGroup
	refusing.Go(func() {
		for raw, err := listener.Accept(); err == nil; raw, err = listener.Accept() {
			if asked, err := link.Accept(t.Context(), raw, identities.agent); err == nil {
				shown <- string(asked.Capability)
				asked.Refuse(relay.Unknown, "")
			}
		}
	})
	defer refusing.Wait()
	defer listener.Close()
	session := &Session{client: &Client{contacts: link.NewContacts(&net.Dialer{}, identities.member, link.AllKeep)}}
	defer session.client.contacts.Close()
	session.attendance = newAttendance(session.client)

	tell := func(capability string) *groupv1.Assignment {
		told := &groupv1.Assignment{Delivery: "000102030405060708090a0b0c0d0e0f", Capability: []byte(capability)}
		session.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{told}})
		return told
	}
	began := tell("first")
	agent := &groupv1.Neighbour{Role: string(theAgent.Role), Name: theAgent.Name, Addresses: []string{listener.Addr().String()}}
	want := func(capability string, hello relay.Hello) {
		t.Helper()
		var refusal *relay.Refusal
		if _, _, err := dialNeighbour(t.Context(), session, began, agent, hello, link.Answer{}); !errors.As(err, &refusal) {
			t.Fatalf("%v, want that it is refused", err)
		}
		if got := <-shown; got != capability {
			t.Errorf("%+v shows the capability %q, want %q", hello, got, capability)
		}
	}
	for _, offer := range []bool{true, false} {
		want("first", relay.Hello{Offer: offer})
		tell("second")
		want("second", relay.Hello{Offer: offer, Join: true, Stripe: 1, Stripes: 2})
		tell("") // as of a delivery that has ended
		want("first", relay.Hello{Offer: offer, Join: true, Stripe: 1, Stripes: 2})
		tell("first")
	}
}
