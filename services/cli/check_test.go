package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// However much is to be delivered, a check can be interrupted while it is written, and while a copy is read.
func TestChecksHeedInterrupts(t *testing.T) {
	dir := t.TempDir()
	ctx, interrupt := context.WithTimeout(t.Context(), time.Millisecond)
	defer interrupt()
	if _, err := writeRandom(ctx, filepath.Join(dir, "source"), 1<<62); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("written: %v", err)
	}
	if err := os.Truncate(filepath.Join(dir, "source"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := hashOf(ctx, filepath.Join(dir, "source")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
}
