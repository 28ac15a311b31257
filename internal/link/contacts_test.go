package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/simnet"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

const (
	oneWay = 50 * time.Millisecond
	trip   = 2 * oneWay
)

// meeting is a door on one host, and contacts on another.
type meeting struct {
	*testing.T
	net      *simnet.Network
	as       func(identity.ID) identity.TLS
	contacts *link.Contacts
	hello    wire.Hello
	refuses  bool
	stop     func()

	mu      sync.Mutex
	served  int
	refused map[string]int
	silent  bool // until nobody waits any more
}

// meet runs a test, in simulated time, between a door and a peer that comes there.
func meet(t *testing.T, role identity.Role, lasting time.Duration, run func(m *meeting)) {
	synctest.Test(t, func(t *testing.T) {
		m := &meeting{T: t, net: simnet.New(1), hello: wire.Hello{Stripes: 1, TreeVersion: 1}, refused: make(map[string]int)}
		m.net.ShapeAll(simnet.Shape{Latency: oneWay})
		ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		m.as = func(id identity.ID) identity.TLS {
			source, err := identity.NewSelfIssued(ca, id)
			if err != nil {
				t.Fatal(err)
			}
			return identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source, Now: time.Now}
		}
		m.start(m.as(parentID))
		m.contacts = link.NewContacts(m, m.as(identity.ID{Role: role, Name: "child"}), lasting)
		defer m.stop()
		defer m.contacts.Close()
		run(m)
	})
}

// another returns contacts that last as long as an agent's.
func (m *meeting) another(role identity.Role, name string) *link.Contacts {
	return link.NewContacts(m, m.as(identity.ID{Role: role, Name: name}), link.AgentsKeep)
}

// DialContext implements link.Dialer.
func (m *meeting) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return m.net.Host("child").Dial(ctx, network, address)
}

// start opens the door.
func (m *meeting) start(security identity.TLS) {
	listener, err := m.net.Host("parent").Listen("parent:1")
	if err != nil {
		m.Fatal(err)
	}
	door := &link.Door{
		Security: security, Log: slog.New(slog.DiscardHandler),
		Refused: func(reason string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.refused[reason]++
		},
		Serve: func(ctx context.Context, asked *link.Asked) {
			m.mu.Lock()
			m.served++
			silent := m.silent
			m.silent = false
			m.mu.Unlock()
			if silent {
				time.Sleep(6 * time.Second)
			}
			if m.refuses {
				asked.Refuse(wire.Denied, "no")
				return
			}
			if conn, err := asked.Welcome(wire.Welcome{TreeVersion: 1}); err == nil {
				conn.Close()
			}
		},
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = door.Run(ctx, listener) // it may have been killed
		door.Wait()
	})
	m.stop = func() {
		stop()
		running.Wait()
	}
}

// refusals returns how often the door has refused somebody so far, by reason.
func (m *meeting) refusals() map[string]int {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.refused)
}

// asked returns how many links were asked for so far.
func (m *meeting) asked() int {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.served
}

// prove makes the parent prove its identity.
func (m *meeting) prove() {
	m.Helper()
	if rtt, err := m.contacts.Prove(m.Context(), "parent:1", parentID); err != nil || rtt.Round(time.Millisecond) != trip {
		m.Fatalf("measured %v, %v, want %v", rtt, err, trip)
	}
}

// ask asks for a link, and checks that it takes so many round trips.
func (m *meeting) ask(trips time.Duration) {
	m.Helper()
	began := time.Now()
	conn, _, err := m.contacts.Ask(m.Context(), "parent:1", parentID, m.hello, link.Answer{})
	if err != nil {
		m.Fatal(err)
	}
	conn.Close()
	if took := time.Since(began).Round(time.Millisecond); took != trips*trip {
		m.Errorf("a link took %v, want %d round trips", took, trips)
	}
}

// A link takes three round trips, but only one over a kept contact, which serves for one link.
func TestContactSavesTwoRoundTrips(t *testing.T) {
	for role, lasting := range map[identity.Role]time.Duration{identity.Member: link.AllKeep, identity.Agent: link.AgentsKeep} {
		for _, plaintext := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s plaintext %v", role, plaintext), func(t *testing.T) {
				meet(t, role, lasting, func(m *meeting) {
					m.hello.Plaintext = plaintext
					m.ask(3)
					m.prove()
					time.Sleep(lasting - 2*trip)
					m.ask(1)
					m.ask(3)
					m.prove()
					time.Sleep(lasting + trip)
					m.ask(3)
					if refused := m.refusals(); refused[link.Probe] != 1 || len(refused) != 1 {
						t.Errorf("refused %v, want the contact that was kept for nothing, as one that measured", refused)
					}
				})
			})
		}
	}
}

// Agents keep a contact to each peer that they measure, and renew it in time. Others prove an identity once.
func TestAgentsKeepContacts(t *testing.T) {
	meet(t, identity.Agent, link.AgentsKeep, func(m *meeting) {
		lacks := func(want bool) {
			t.Helper()
			if m.contacts.Lacks("parent:1", parentID) != want {
				t.Errorf("lacks a contact: %v, want %v", !want, want)
			}
		}
		lacks(true)
		m.prove()
		lacks(false)
		time.Sleep(link.AgentsKeep/2 + trip)
		lacks(true)
		m.prove()
		lacks(false)
		m.ask(1)
		lacks(true)
	})
	meet(t, identity.Member, link.AllKeep, func(m *meeting) {
		if m.contacts.Lacks("parent:1", parentID) {
			t.Error("a member keeps contacts")
		}
	})
}

// A contact that broke unnoticed is replaced when it is used.
func TestBrokenContactIsReplaced(t *testing.T) {
	meet(t, identity.Agent, link.AgentsKeep, func(m *meeting) {
		m.prove()
		m.net.Reset("child", "parent")
		m.ask(3)
	})
}

// A link is opened within five seconds, or not at all, also over a contact to a peer that does not answer; the contact is gone then.
func TestSilentContactIsGivenUp(t *testing.T) {
	meet(t, identity.Agent, link.AgentsKeep, func(m *meeting) {
		m.prove()
		m.silent = true
		began := time.Now()
		_, _, err := m.contacts.Ask(m.Context(), "parent:1", parentID, m.hello, link.Answer{})
		if took := time.Since(began).Round(time.Millisecond); err == nil || took != 5*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		m.ask(3)
	})
}

// A refusal is final: the link is not asked for again over another connection.
func TestRefusedOverContact(t *testing.T) {
	meet(t, identity.Agent, link.AgentsKeep, func(m *meeting) {
		m.refuses = true
		m.prove()
		var refused *wire.Refusal
		if _, _, err := m.contacts.Ask(m.Context(), "parent:1", parentID, m.hello, link.Answer{}); !errors.As(err, &refused) || m.asked() != 1 {
			t.Errorf("%v, asked %d times: want it refused once", err, m.asked())
		}
	})
}

// Closed contacts keep nothing, but can still be asked for links.
func TestClosedContactsKeepNone(t *testing.T) {
	meet(t, identity.Agent, link.AgentsKeep, func(m *meeting) {
		m.prove()
		m.contacts.Close()
		m.prove()
		time.Sleep(trip)
		if refused := m.refusals(); refused[link.Probe] != 2 {
			t.Errorf("refused %v, want both contacts closed", refused)
		}
		m.ask(3)
	})
}

// A door waits for agents that have proved their identity, for four connections of each, and not for members.
func TestDoorWaitsForAgents(t *testing.T) {
	const come = 6
	for role, gone := range map[identity.Role]int{identity.Agent: 2, identity.Member: come} {
		meet(t, role, link.AgentsKeep, func(m *meeting) {
			for range come {
				contacts := m.another(role, "child")
				defer contacts.Close()
				if _, err := contacts.Prove(m.Context(), "parent:1", parentID); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Second)
			if refused := m.refusals(); refused[link.Probe] != gone {
				t.Errorf("of %d contacts of one %s %v are gone, want %d", come, role, refused, gone)
			}
			time.Sleep(link.AgentsKeep)
			if refused := m.refusals(); refused[link.Probe] != come || len(refused) != 1 {
				t.Errorf("of %d contacts of one %s %v were given up", come, role, refused)
			}
		})
	}
}

// Many contacts behind one address keep nobody else from coming in.
func TestContactsCrowdNobodyOut(t *testing.T) {
	for _, role := range []identity.Role{identity.Agent, identity.Member} {
		meet(t, role, link.AgentsKeep, func(m *meeting) {
			var all sync.WaitGroup
			for i := range 100 {
				contacts := m.another(role, fmt.Sprint("one-", i))
				defer contacts.Close()
				all.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Millisecond) // opening takes 100 ms
					if _, err := contacts.Prove(m.Context(), "parent:1", parentID); err != nil {
						m.Error(err)
					}
				})
			}
			all.Wait()
			m.ask(3)
		})
	}
}

// On real connections it is noticed that a contact was closed or reset, and that one is intact.
func TestClosedContactIsSeen(t *testing.T) {
	for how, linger := range map[string]int{"closed": -1, "reset": 0} {
		n := newNeighbours(t)
		listener := listen(t)
		met := make(chan *tls.Conn, 2)
		var accepting sync.WaitGroup
		accepting.Go(func() {
			for range 2 {
				raw, err := listener.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				secure := tls.Server(raw, n.parent.Listen("groupcast-relay/1"))
				if err := secure.Handshake(); err != nil {
					t.Error(err)
				}
				met <- secure
			}
		})
		contacts, address := link.NewContacts(&net.Dialer{}, n.child, link.AgentsKeep), listener.Addr().String()
		for _, breaks := range []bool{false, true} {
			if _, err := contacts.Prove(t.Context(), address, parentID); err != nil {
				t.Fatal(err)
			}
			peer := (<-met).NetConn().(*net.TCPConn)
			if breaks {
				peer.SetLinger(linger)
				peer.Close()
			} else {
				defer peer.Close()
			}
			for deadline := time.Now().Add(5 * time.Second); contacts.Lacks(address, parentID) != breaks; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s %v: it is not seen", how, breaks)
				}
			}
		}
		contacts.Close()
		listener.Close()
		accepting.Wait()
	}
}
