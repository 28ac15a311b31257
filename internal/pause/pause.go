// Package pause waits for a while, but not longer than a context.
package pause

import (
	"context"
	"time"
)

// For waits for so long, and reports whether ctx goes on.
func For(ctx context.Context, span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
