package uplink

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Unanswered is the error of a call that no manager answered. It wraps what gRPC reported.
type Unanswered struct {
	error
	// Endpoints are where managers were looked for, and Why says what came of it.
	Endpoints []string
	Why       string
}

func (e *Unanswered) Error() string {
	return "no manager answers at " + strings.Join(e.Endpoints, ", ") + ": " + e.Why
}

func (e *Unanswered) Unwrap() error { return e.error }

// GRPCStatus returns the status that gRPC reported.
func (e *Unanswered) GRPCStatus() *status.Status { return status.Convert(e.error) }

// tellUnanswered is an interceptor that turns the error of a call that reached nobody into Unanswered.
func (u *Uplink) tellUnanswered(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, request, answer, connection, opts...)
	if !isUnanswered(err, connection.GetState()) {
		return err
	}
	why := Words(err)
	if refused := u.HandshakeError(); refused != nil && status.Code(err) == codes.DeadlineExceeded {
		why = refused.Error() // gRPC would have said so later
	}
	return &Unanswered{error: err, Endpoints: u.config.Endpoints, Why: why}
}

// isUnanswered reports whether nobody has answered: a manager gives its errors reasons, and may be slow if it is connected.
func isUnanswered(err error, state connectivity.State) bool {
	switch status.Code(err) {
	case codes.Unavailable:
		return Reason(err) == ""
	case codes.DeadlineExceeded:
		return Reason(err) == "" && state != connectivity.Ready
	}
	return false
}
