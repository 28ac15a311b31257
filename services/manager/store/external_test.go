package store_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/services/manager/store"
)

// A manager whose etcd is not there says what does not answer.
func TestExternalSaysWhatDoesNotAnswer(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	_, err := store.OpenExternal(ctx, []string{"http://127.0.0.1:1"}, nil, slog.New(slog.DiscardHandler))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "etcd does not answer") {
		t.Errorf("it says %v", err)
	}
}
