package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/daemon"
)

var errBusy, errGone = errors.New("busy"), errors.New("gone")

var table = []daemon.Code{
	{Err: errBusy, Code: codes.Unavailable, Reason: "BUSY"},
	{Err: errGone, Code: codes.NotFound, Reason: "GONE"},
}

// details returns an answer's code, its reason, and whether it says when to try again.
func details(t *testing.T, err error) (code codes.Code, reason string, again bool) {
	t.Helper()
	s := status.Convert(err)
	for _, detail := range s.Details() {
		switch one := detail.(type) {
		case *errdetails.ErrorInfo:
			reason = one.GetReason()
			if one.GetDomain() != daemon.ErrorDomain {
				t.Errorf("the reason is of domain %q", one.GetDomain())
			}
		case *errdetails.RetryInfo:
			again = one.GetRetryDelay().AsDuration() == daemon.RetrySoon
		}
	}
	return s.Code(), reason, again
}

// An error has the code and the reason of the first entry that matches, even if it is wrapped. If
// it is momentary, the answer says when to try again. If no entry matches it is internal.
func TestErrorsBecomeStatus(t *testing.T) {
	for _, one := range []struct {
		err    error
		code   codes.Code
		reason string
		again  bool
	}{
		{errBusy, codes.Unavailable, "BUSY", true},
		{fmt.Errorf("open: %w", errGone), codes.NotFound, "GONE", false},
		{errors.Join(errGone, errBusy), codes.Unavailable, "BUSY", true},
		{errors.New("else"), codes.Internal, "INTERNAL", false},
		{status.Error(codes.Aborted, "as it is"), codes.Aborted, "", false},
	} {
		code, reason, again := details(t, daemon.Status(one.err, table))
		if code != one.code || reason != one.reason || again != one.again {
			t.Errorf("%v is %v %q, try again %t; want %v %q %t", one.err, code, reason, again, one.code, one.reason, one.again)
		}
	}
	if err := daemon.Status(nil, table); err != nil {
		t.Errorf("no error is %v", err)
	}
}

// What an answer repeats is bounded, and stays valid text.
func TestAnswersAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	for _, text := range []string{long, "x" + long} {
		clipped := status.Convert(daemon.Status(fmt.Errorf("%s: %w", text, errGone), table)).Message()
		if len(clipped) > 1100 || !utf8.ValidString(clipped) || !strings.HasPrefix(text, strings.TrimSuffix(clipped, "…")) {
			t.Errorf("%d bytes are answered", len(clipped))
		}
	}
	if daemon.Clip("short") != "short" {
		t.Error("a short text is changed")
	}
}
