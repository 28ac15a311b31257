package fleet_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// liar is an agent with a valid identity that claims to be next to everybody.
type liar struct {
	mu     sync.Mutex
	claims []*groupv1.RoundTrip
	told   int
}

const claimed = 10 * time.Microsecond

func (l *liar) measure(measuring *groupv1.Measuring) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, agent := range measuring.GetAgents() {
		l.claims = append(l.claims, &groupv1.RoundTrip{Agent: agent.GetName(), Time: durationpb.New(claimed)})
	}
}

func (l *liar) roundTrips() (claims []*groupv1.RoundTrip) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claims, l.claims = l.claims, nil
	l.told += len(claims)
	return claims
}

// startLiar starts a liar on a host, where it accepts connections as an agent does.
func (s *sites) startLiar(host *lab.Host) *liar {
	s.Helper()
	managers := s.dialAsAgent("liar")
	listener, err := host.Listen(s.ctx, "tcp4", host.At(fleet.Port))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	s.Cleanup(func() {
		cancel()
		listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { _, _ = link.Accept(ctx, raw, managers.Security()) }) // nobody asks for a link
		}
	})
	l := new(liar)
	registration := &agentv1.Registration{Node: "liar", Addresses: []string{host.At(fleet.Port)}}
	running.Go(func() {
		err := managers.Register(ctx, registration, func() *agentv1.Report { return new(agentv1.Report) },
			&uplink.Attendance{Measure: l.measure, RoundTrips: l.roundTrips})
		if err != nil && ctx.Err() == nil {
			s.Errorf("the liar's registration ended: %v", err)
		}
	})
	return l
}

// dialAsAgent dials the manager from this process.
func (s *sites) dialAsAgent(name string) *uplink.Uplink {
	s.Helper()
	config, err := uplink.ReadConfig(filepath.Join(filepath.Dir(s.Access()), "outside.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	token, _, err := s.Client.CreateToken(s.ctx, sdk.Token{Role: "agent", Name: name})
	if err != nil {
		s.Fatal(err)
	}
	config.CredentialsDir = s.TempDir()
	if _, err := sdk.Enroll(s.ctx, config, token); err != nil {
		s.Fatal(err)
	}
	managers, err := uplink.Dial(config, slog.New(slog.DiscardHandler))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = managers.Close() })
	return managers
}

// A liar at the far site that claims to be next to everybody is recognized to be where it is,
// because the others measure it, too. It is in no cluster of the near site, and an object still
// crosses the slow link once.
func TestLiarIsWhereItIs(t *testing.T) {
	s := newSites(t)
	l := s.startLiar(s.guests[0])
	s.await("the liar has lied to the near site, and is known to be far from it", func() bool {
		agents, err := s.Client.Agents(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range agents {
			if agent.Name == "z1" {
				return l.lied() >= 2*agentsOfSite && farther(agent.RoundTrips, "liar", 15*time.Millisecond)
			}
		}
		return false
	})
	s.awaitSites()
	of, _ := s.clusters()
	if of["liar"] == of["z1"] {
		t.Errorf("the liar is in the cluster %s of the near site", of["liar"])
	}
	s.populate("group", sdk.Policy{})
	s.push("group")
	if crossed := s.push("group"); crossed < 1 || crossed > 1.2 {
		t.Errorf("the object crossed the slow link %.2f times, want once", crossed)
	}
}

func (l *liar) lied() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

func farther(trips []sdk.RoundTrip, agent string, least time.Duration) bool {
	for _, trip := range trips {
		if trip.Agent == agent {
			return trip.Time >= least
		}
	}
	return false
}
