package group

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/algo/liveness"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger/ledgertest"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// While sweeps write to a slow store, members that are silent have no more time than otherwise.
func TestSlowStoreIsNobodysGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r := &Registry{
			term:     new(store.Term),
			log:      slog.New(slog.DiscardHandler),
			sessions: liveness.NewTable[Session](Expiry).AskedWithin(lateSweep, now),
			agents:   liveness.NewTable[string](Expiry).AskedWithin(lateSweep, now),

			replicators: liveness.NewTable[string](Expiry).AskedWithin(lateSweep, now),
		}
		r.sessions.Heard(Session{Group: "g", Member: "ada"}, now)
		r.agents.Heard("a1", now)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.every(ctx, sweepInterval, r.stayAwake) })
		time.Sleep(Expiry) // with no sweep in it
		cancel()
		running.Wait()
		if members, agents := len(r.sessions.Silent(time.Now())), len(r.agents.Silent(time.Now())); members != 1 || agents != 1 {
			t.Errorf("after %v without a sweep, %d members and %d agents are silent, want one each", Expiry, members, agents)
		}
	})
}

// Where there are only replicators, that they fall silent at once tells as well that this manager is cut off; not where their streams
// have ended, and no longer than where others do.
func TestReplicatorsTellThatTheManagerIsCutOff(t *testing.T) {
	for name, parted := range map[string]bool{"they fall silent": false, "they end": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				r := &Registry{
					term: new(store.Term), log: slog.New(slog.DiscardHandler),
					sessions: liveness.NewTable[Session](Expiry), agents: liveness.NewTable[string](Expiry),
					replicators: liveness.NewTable[string](Expiry).AskedWithin(lateSweep, now),
				}
				for _, name := range []string{"r1", "r2", "r3"} {
					r.HearReplicator(name)
					if parted {
						r.ReplicatorParted(name)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { r.every(ctx, sweepInterval, r.stayAwake) })
				time.Sleep(missedAfter + time.Second)
				if r.IsCutOff() == parted {
					t.Errorf("the manager is cut off: %v", r.IsCutOff())
				}
				time.Sleep(3 * time.Minute)
				if r.IsCutOff() || r.replicators.Len() > 0 {
					t.Errorf("three minutes later it is cut off: %v; %d are not forgotten", r.IsCutOff(), r.replicators.Len())
				}
				cancel()
				running.Wait()
			})
		})
	}
}

// Of a member that has expired it is known when it was last heard. One that was never heard in this term was not since that began.
func TestWhoExpiredWasHeardUntilThen(t *testing.T) {
	written, state, shown := ledgertest.Leading(t)
	r := Lead(written, state, shown, nil, slog.New(slog.DiscardHandler))
	if at := r.LastHeard("g", "bob"); !at.Equal(r.led) {
		t.Errorf("bob was heard %v, want %v, when the term began", at, r.led)
	}
	if _, err := r.CreateGroup(t.Context(), identity.ID{}, &groupv1.CreateGroupRequest{Name: "g"}); err != nil {
		t.Fatal(err)
	}
	var last time.Time
	heard := func(what string, after time.Time) {
		t.Helper()
		if last = r.LastHeard("g", "ada"); last.Before(after) || last.After(time.Now()) {
			t.Errorf("%s at %v, it was heard %v", what, after, last)
		}
	}
	before := time.Now()
	joined, err := r.Join(t.Context(), identity.ID{}, &groupv1.JoinRequest{Group: "g", Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	heard("joined", before)
	before = time.Now()
	r.Heartbeat(sessionOf(joined.GetMember()))
	heard("heard", before)
	member, _ := shown.Member("g", "ada")
	if ended := r.endSessions(t.Context(), groupv1.MemberState_MEMBER_STATE_EXPIRED, []view.Member{member}); ended != 1 {
		t.Fatal("it does not expire")
	}
	if at := r.LastHeard("g", "ada"); !at.Equal(last) {
		t.Errorf("expired, it was heard %v, want %v", at, last)
	}
	r.heard[seat{"g", "ada"}] = last.Add(-forgetHeard)
	if r.forgetSilent(t.Context()); len(r.heard) > 0 {
		t.Errorf("%v are remembered", r.heard)
	}
}
