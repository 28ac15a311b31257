package sdk

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A member looks again and again for what killed ones have left, as it may receive for months. It removes what is a week old, but not
// what came of streams: that is the user's.
func TestAbandonedIsLookedForEachHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		into := t.TempDir()
		leave := func(name string, age time.Duration) string {
			path, at := filepath.Join(into, name), time.Now().Add(-age)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
				t.Fatal(err)
			}
			return path
		}
		want := func(path string, there bool) {
			t.Helper()
			if _, err := os.Stat(path); (err == nil) != there {
				t.Errorf("%s is there: %v, want %t", path, err, there)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var sweeping sync.WaitGroup
		defer sweeping.Wait()
		defer stop()
		first := leave(".groupcast-partial/first/journal", 8*24*time.Hour)
		session := &Session{client: &Client{log: slog.New(slog.DiscardHandler)}}
		sweeping.Go(func() { session.sweep(ctx, into) })
		synctest.Wait()
		want(first, false)
		stream := leave("log.incomplete", 8*24*time.Hour)
		old, young := leave(".groupcast-partial/old/journal", 8*24*time.Hour), leave(".groupcast-partial/young/journal", 6*24*time.Hour)
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		want(old, false)
		want(young, true)
		want(stream, true)
	})
}
