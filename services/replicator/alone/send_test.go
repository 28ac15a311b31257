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

// Who interrupts a sender is told what there is to go on with.
func TestWhatAnInterruptedSenderSays(t *testing.T) {
	a := &app{phrase: phrase}
	one := []send.Receipt{{Name: "one"}}
	for _, tt := range []struct {
		members []send.Receipt
		made    bool
		want    string
	}{
		{nil, true, "nobody has joined, and nothing was sent"},
		{one, true, "receivers keep what they have: send again with --key " + phrase + " to go on"},
		{one, false, "receivers keep what they have: send again to go on"},
	} {
		if got := a.goOn(tt.members, tt.made); got != tt.want {
			t.Errorf("%d receivers, with a phrase that was made: %t: %q, want %q", len(tt.members), tt.made, got, tt.want)
		}
	}
}
