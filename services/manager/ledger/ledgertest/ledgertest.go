// Package ledgertest has a leading manager's ledger for tests of what is written in it.
package ledgertest

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Leading returns the ledger of a manager that leads, with its store and what it shows. It ends with the test.
func Leading(t *testing.T) (*ledger.Ledger, *store.Store, *view.View) {
	t.Helper()
	return LeadingIn(t, t.TempDir())
}

// LeadingIn is Leading with the store in a directory.
func LeadingIn(t *testing.T, dir string) (*ledger.Ledger, *store.Store, *view.View) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	state, err := store.OpenEmbedded(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Close)
	term, err := state.Campaign(t.Context(), store.Candidate{Name: "m1", Address: "m1:7400"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(term.Resign)
	shown, loaded := view.New(state, log), make(chan struct{})
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() {
		if err := shown.Run(t.Context(), func() { close(loaded) }); err != nil {
			t.Error(err)
		}
	})
	<-loaded
	return ledger.Open(term, state, shown), state, shown
}
