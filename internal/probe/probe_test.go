package probe_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a trust domain with agents that listen, and a node that measures them.
type site struct {
	*testing.T
	ca       *identity.CA
	contacts *link.Contacts
	prober   *probe.Prober
	rounds   chan struct{}
	dials    atomic.Int64
}

func newSite(t *testing.T) *site {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, ca: ca, rounds: make(chan struct{}, 16)}
	s.contacts = link.NewContacts(s, s.identity(identity.ID{Role: identity.Member, Name: "m"}), link.AllKeep)
	s.prober = probe.New(s, s.contacts, slog.New(slog.DiscardHandler), func() { s.rounds <- struct{}{} })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.prober.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *site) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	s.dials.Add(1)
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (s *site) identity(id identity.ID) identity.TLS {
	source, err := identity.NewSelfIssued(s.ca, id)
	if err != nil {
		s.Fatal(err)
	}
	return identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source}
}

// agent starts an agent that accepts links, and returns its address.
func (s *site) agent(name string) string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	security, stopped := s.identity(identity.ID{Role: identity.Agent, Name: name}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			raw, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if _, err := link.Accept(context.Background(), raw, security); err == nil {
				s.Error("a link was asked for")
			}
		}
	}()
	s.Cleanup(func() {
		listener.Close()
		s.contacts.Close()
		<-stopped
	})
	return listener.Addr().String()
}

// measure measures a round, and returns the agents that were measured.
func (s *site) measure(agents ...*groupv1.Neighbour) map[string]time.Duration {
	s.Helper()
	s.prober.Measure(&groupv1.Measuring{Agents: agents})
	<-s.rounds
	measured := make(map[string]time.Duration)
	for _, one := range s.prober.RoundTrips() {
		measured[one.GetAgent()] = one.GetTime().AsDuration()
	}
	return measured
}

func at(name string, addresses ...string) *groupv1.Neighbour {
	return &groupv1.Neighbour{Name: name, Role: "agent", Addresses: addresses}
}

// Agents are measured that are where they are said to be. If another agent or nobody is there, the agent is left out.
func TestRound(t *testing.T) {
	s := newSite(t)
	a, b := s.agent("a"), s.agent("b")
	const nobody = "127.0.0.1:1"
	s.measure() // the first round does not wait for all
	measured := s.measure(at("a", a), at("b", nobody, b), at("c", b), at("d", nobody), at("e"))
	if len(measured) != 2 || measured["a"] <= 0 || measured["b"] <= 0 {
		t.Errorf("measured %v, want a and b", measured)
	}
	if again := s.prober.RoundTrips(); len(again) != 0 {
		t.Errorf("%v is reported twice", again)
	}
}

// A round is bounded, however many agents are asked for.
func TestRoundIsBounded(t *testing.T) {
	s := newSite(t)
	a := s.agent("a")
	many := make([]*groupv1.Neighbour, 1000)
	for i := range many {
		many[i] = at("a", a)
	}
	s.measure(many...)
	if dials := s.dials.Load(); dials > 50 {
		t.Errorf("%d connections for one round", dials)
	}
}

// A sender waits until the manager knows the first round, which shows in the next answer.
func TestSettled(t *testing.T) {
	s := newSite(t)
	isSettled := func() bool {
		select {
		case <-s.prober.Settled():
			return true
		default:
			return false
		}
	}
	s.prober.Measure(&groupv1.Measuring{Agents: []*groupv1.Neighbour{at("a", s.agent("a"))}})
	<-s.rounds
	s.prober.Measure(nil) // this answers what came before
	if isSettled() {
		t.Error("settled before anything was reported")
	}
	s.prober.RoundTrips()
	s.prober.Measure(nil)
	if !isSettled() {
		t.Error("not settled after an answer to the report")
	}
}

// If nothing is to be measured there is nothing to wait for.
func TestSettledAtOnce(t *testing.T) {
	s := newSite(t)
	s.prober.Measure(nil)
	<-s.prober.Settled()
	if measured := s.measure(at("a", s.agent("a"))); len(measured) != 1 {
		t.Errorf("measured %v later", measured)
	}
}

// In the first round an agent that has not answered for long is not waited for: it cannot be the nearest.
func TestFirstRoundWaitsForTheNearest(t *testing.T) {
	s := newSite(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	begun := time.Now()
	measured := s.measure(at("far", silent.Addr().String()), at("near", s.agent("near")))
	if took := time.Since(begun); took > time.Second || len(measured) != 1 || measured["near"] == 0 {
		t.Errorf("%v after %v, want the near one at once", measured, took)
	}
	silent.Close() // this ends what waits there
	<-s.rounds
}
