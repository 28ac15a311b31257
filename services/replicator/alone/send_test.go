package alone

import (
	"context"
	"errors"
	"testing"

	"github.com/groupcast/groupcast/services/replicator/send"
)

// Receipts say for whom a sender ended whose fault that was.
func TestWhyASenderEnded(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{interrupted, context.Canceled, "canceled"},
		{t.Context(), &send.RivalError{}, "refused"},
		{t.Context(), send.ErrNobody, ""},
		{t.Context(), &send.RefusedError{}, ""},
		{t.Context(), &send.NetworkError{Err: errors.New("network is down")}, "no_multicast"},
		{t.Context(), errors.New("read block 7: input/output error"), "source_failed"},
	} {
		if got := whyEnded(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
