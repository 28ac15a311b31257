package group

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/algo/liveness"
	"github.com/groupcast/groupcast/services/manager/store"
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
