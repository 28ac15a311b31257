package uplink

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What users are told of a failed call does not contain gRPC's names for its own parts.
func TestWords(t *testing.T) {
	for want, err := range map[string]error{
		"group \"m\" not found": fmt.Errorf("get: %w", status.Error(codes.NotFound, `group "m" not found`)),
		"no answer in time":     status.FromContextError(context.DeadlineExceeded).Err(),
		"dial tcp 10.0.0.5:7400: connect: connection refused":   status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.5:7400: connect: connection refused"`),
		"authentication handshake failed: peer is agent/a: not": status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: peer is agent/a: not"`),
		`authentication handshake failed: "x" is no name`:       status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: \"x\" is no name"`),
		`lookup "x": no such host`:                              status.Error(codes.DeadlineExceeded, `latest balancer error: connection error: desc = "transport: Error while dialing: lookup \"x\": no such host"`),
		"the client was closed":                                 status.Error(codes.Canceled, "grpc: the client connection is closing"),
		"no space left":                                         errors.New("no space left"),
	} {
		if got := Words(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// Whatever a call waited for when its time was over, the text says that there was no answer.
func TestWordsOfTimeThatIsOver(t *testing.T) {
	err := status.Error(codes.DeadlineExceeded, "context deadline exceeded while waiting for connections to become ready")
	if got := Words(err); got != "no answer in time" {
		t.Errorf("it says %q", got)
	}
}

// If a manager has closed its client of another manager, the text does not say that this client was closed.
func TestBrokenBy(t *testing.T) {
	for want, err := range map[string]error{
		"the manager that answers has lost the one that leads": status.Error(codes.Canceled, "grpc: the client connection is closing"),
		"the manager is silent":                                errSilent,
		"no manager leads":                                     status.Error(codes.Unavailable, "no manager leads"),
	} {
		if got := brokenBy(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// A call that was canceled matches its context's error, whatever its text.
func TestCanceledCallIsCanceled(t *testing.T) {
	for code, want := range map[codes.Code]bool{codes.Canceled: true, codes.Unavailable: false} {
		err := fmt.Errorf("enroll: %w", inWords{status.Error(code, "it ended")})
		if errors.Is(err, context.Canceled) != want {
			t.Errorf("%v is canceled: want %v", code, want)
		}
	}
}
