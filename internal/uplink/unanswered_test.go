package uplink

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/daemon"
)

// A manager gives each error a reason, and a manager that is connected but slow is there: neither counts as unanswered.
func TestWhatNobodyHasAnswered(t *testing.T) {
	late := status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	for name, tt := range map[string]struct {
		err   error
		state connectivity.State
		want  bool
	}{
		"nothing":                      {nil, connectivity.Ready, false},
		"nobody listens":               {status.Error(codes.Unavailable, "connection refused"), connectivity.TransientFailure, true},
		"a proxy without managers":     {status.Error(codes.Unavailable, "no healthy upstream"), connectivity.Ready, true},
		"a manager that does not lead": {daemon.NewStatus(codes.Unavailable, "NO_LEADER", errSilent), connectivity.Ready, false},
		"a manager that is slow":       {late, connectivity.Ready, false},
		"nobody, for too long":         {late, connectivity.Connecting, true},
		"who is not let in":            {status.Error(codes.Unauthenticated, "no"), connectivity.Ready, false},
	} {
		if got := isUnanswered(tt.err, tt.state); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Unanswered has the code that gRPC reported: callers that try again go by the code.
func TestUnansweredHasItsCode(t *testing.T) {
	err := &Unanswered{error: status.Error(codes.Unavailable, "connection refused"), Endpoints: []string{"a:1", "b:1"}, Why: "connection refused"}
	if status.Code(err) != codes.Unavailable || Reason(err) != "" || Words(err) != "connection refused" {
		t.Errorf("%v: code %v, reason %q", err, status.Code(err), Reason(err))
	}
	if want := "no manager answers at a:1, b:1: connection refused"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
