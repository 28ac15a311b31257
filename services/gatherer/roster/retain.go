package roster

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

const (
	// retainEvery is how often the store is looked through for what need not stay.
	retainEvery = time.Minute
	// abandonedEvery is how often it is looked through for what was abandoned: that reads all directories.
	abandonedEvery = time.Hour
)

// keeper is what is known from one look at the store to the next.
type keeper struct {
	dates calendar
	sweep time.Duration   // when to look next for what was abandoned
	other map[string]bool // directories that are no client's, and have been logged
}

// Retain removes what need not stay of what clients uploaded, until ctx is done.
func (r *Roster) Retain(ctx context.Context) error {
	ticker := time.NewTicker(retainEvery)
	defer ticker.Stop()
	var store keeper
	for {
		r.retain(&store, time.Now().Round(0), uptime())
		r.recountAll()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// retain removes what need not stay, by what both clocks say now.
func (r *Roster) retain(store *keeper, date time.Time, passed time.Duration) {
	if by := store.dates.look(date, passed); by > 0 {
		r.Log.Warn("the machine's clock was set forward, or the machine was paused: what came before counts as that much younger", "by", by)
	}
	clients, err := os.ReadDir(r.Dir)
	if err != nil {
		r.Log.Warn("what need not stay could not be removed", "dir", r.Dir, "error", err)
	}
	abandoned := object.Abandoned + date.Sub(store.dates.dateFor(object.Abandoned))
	sweeps := passed >= store.sweep
	if sweeps {
		store.sweep = passed + abandonedEvery
	}
	for _, client := range clients {
		if !client.IsDir() || !r.isClients(store, client.Name()) {
			continue
		}
		dir := filepath.Join(r.Dir, client.Name())
		if sweeps {
			if err := sink.Sweep(dir, abandoned); err != nil {
				r.Log.Warn("what was abandoned could not be removed", "client", client.Name(), "error", err)
			}
		}
		r.retainOf(client.Name(), dir, store.dates.dateFor(r.Retention.Age))
	}
}

// isClients reports whether a directory of the store is a client's. One that is not, though a client could have its name, is logged once.
func (r *Roster) isClients(store *keeper, name string) bool {
	if identity.CheckName(name) != nil { // as lost+found
		return false
	}
	known := r.register.knows(name)
	if !known && !store.other[name] {
		r.Log.Info("a directory in the store is no client's: what is in it stays", "dir", filepath.Join(r.Dir, name))
		if store.other == nil {
			store.other = make(map[string]bool)
		}
		store.other[name] = true
	}
	return known
}

// retainOf removes what need not stay of a client's, by a date.
func (r *Roster) retainOf(client, dir string, now time.Time) {
	files, bytes, err := r.Retention.Retain(dir, now)
	if files > 0 {
		r.Log.Info("removed what need not stay", "client", client, "files", files, "bytes", bytes)
	}
	if err != nil {
		r.Log.Warn("what need not stay could not be removed", "client", client, "error", err)
	}
}
