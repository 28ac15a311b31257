package roster

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// retainEvery is how often it is looked what need not stay.
const retainEvery = time.Minute

// Retain removes what need not stay of what clients uploaded, until ctx is done.
func (r *Roster) Retain(ctx context.Context) error {
	ticker := time.NewTicker(retainEvery)
	defer ticker.Stop()
	var dates calendar
	for begun := time.Now(); ; {
		r.retain(dates.look(time.Now().Round(0), time.Since(begun), r.Retention.Longest()))
		r.recountAll()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// retain removes what need not stay; nothing for its age if now is zero.
func (r *Roster) retain(now time.Time) {
	clients, err := os.ReadDir(r.Dir)
	if err != nil {
		r.Log.Warn("what need not stay could not be removed", "dir", r.Dir, "error", err)
	}
	for _, client := range clients {
		if !client.IsDir() {
			continue
		}
		files, bytes, err := r.Retention.Retain(filepath.Join(r.Dir, client.Name()), now)
		if files > 0 {
			r.Log.Info("removed what need not stay", "client", client.Name(), "files", files, "bytes", bytes)
		}
		if err != nil {
			r.Log.Warn("what need not stay could not be removed", "client", client.Name(), "error", err)
		}
	}
}
