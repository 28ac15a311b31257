package group

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/ledger/ledgertest"
)

// leading returns the registry of a manager that leads, in which nothing runs by time.
func leading(t *testing.T) *Registry {
	t.Helper()
	written, state, shown := ledgertest.Leading(t)
	return Lead(written, state, shown, nil, slog.New(slog.DiscardHandler))
}

func (r *Registry) mustRegister(t *testing.T, name string, incarnation uint64) uint64 {
	t.Helper()
	got, err := r.RegisterAgent(t.Context(), name, &agentv1.Registration{Node: "n", Incarnation: incarnation})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A member that relays registers as often as it may join, and no more: each time, the deliveries of all groups are looked at. Session agents
// that an operator runs are trusted.
func TestRelayCannotRegisterAgainAndAgain(t *testing.T) {
	t.Parallel()
	r := leading(t)
	register := func(name string, times int) (registered int, err error) {
		for ; registered < times && err == nil; registered++ {
			_, err = r.RegisterAgent(t.Context(), name, &agentv1.Registration{Node: "n"})
		}
		return registered, err
	}
	limited := new(ledger.RateLimited)
	if registered, err := register("m.g", 1000); !errors.As(err, &limited) || registered <= flapBurst {
		t.Errorf("after %d registrations of a relay: %v, want it limited after %d at least", registered, err, flapBurst)
	}
	for _, other := range []string{"n.g", "m.h"} {
		if _, err := register(other, flapBurst); err != nil {
			t.Errorf("%s is limited, too: %v", other, err)
		}
	}
	if registered, err := register("a1", 3*flapBurst); err != nil {
		t.Errorf("after %d registrations of a session agent: %v", registered, err)
	}
}

// findSilent has an agent found silent; what follows from that is not done yet.
func (r *Registry) findSilent(t *testing.T, name string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if silent := r.agents.Silent(time.Now().Add(time.Hour)); len(silent) != 1 || silent[0] != name {
		t.Fatalf("%v are silent, want %s", silent, name)
	}
}

// Between finding an agent silent and marking it offline, it can come back.
func TestAgentThatComesBackStaysOnline(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]func(t *testing.T, r *Registry, incarnation uint64){
		"registers as the same": func(t *testing.T, r *Registry, incarnation uint64) { r.mustRegister(t, "a1", incarnation) },
		"registers anew":        func(t *testing.T, r *Registry, _ uint64) { r.mustRegister(t, "a1", 0) },
		"reports": func(t *testing.T, r *Registry, incarnation uint64) {
			if state := r.ReportAgent("a1", incarnation); state != agentv1.AgentState_AGENT_STATE_ONLINE {
				t.Fatal(state)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := leading(t)
			incarnation := r.mustRegister(t, "a1", 0)
			r.agents.AskedWithin(0, time.Time{}) // no sweep runs here that could be late
			r.findSilent(t, "a1")
			heard(t, r, incarnation)
			if isOffline, err := r.setOffline(t.Context(), "a1"); err != nil || isOffline {
				t.Errorf("offline: %v (%v)", isOffline, err)
			}
			if agent, _ := r.view.Agent("a1"); agent.GetState() != agentv1.AgentState_AGENT_STATE_ONLINE {
				t.Errorf("%v after it was heard, want it online", agent.GetState())
			}
			r.findSilent(t, "a1")
			if isOffline, err := r.setOffline(t.Context(), "a1"); err != nil || !isOffline {
				t.Errorf("offline: %v (%v) when it is silent again", isOffline, err)
			}
		})
	}
}

// An agent that stops late has been replaced: its successor goes on being found silent when it is, and seen when it is not.
func TestGoodbyeOfWhoWasReplacedChangesNothing(t *testing.T) {
	t.Parallel()
	r := leading(t)
	r.agents.AskedWithin(0, time.Time{})
	former := r.mustRegister(t, "a1", 0)
	r.mustRegister(t, "a1", 0)
	if err := r.ForgetAgent(t.Context(), "a1", former); err != nil {
		t.Fatal(err)
	}
	r.findSilent(t, "a1")

	register := func() uint64 {
		incarnation, err := r.RegisterGatherer(t.Context(), "g1", &gatherv1.GathererRegistration{Addresses: []string{"g:1"}})
		if err != nil {
			t.Fatal(err)
		}
		return incarnation
	}
	former = register()
	register()
	if err := r.ForgetGatherer(t.Context(), "g1", former); err != nil {
		t.Fatal(err)
	}
	r.led = time.Now().Add(-time.Hour)
	if away := r.AwayGatherers(); len(away) != 0 {
		t.Errorf("%v are away, and were heard just now", away)
	}
}
