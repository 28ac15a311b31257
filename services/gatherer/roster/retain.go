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
	for {
		r.retain(time.Now())
		r.recountAll()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

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
