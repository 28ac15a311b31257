package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/serviceaccount"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// errorDomain is the domain of the reasons in google.rpc.ErrorInfo.
const errorDomain = "groupcast.dev"

// Errors of the API itself.
var (
	errNoIdentity = errors.New("no certificate: enroll with a join token first")
	errRevoked    = errors.New("the identity was revoked: enroll with a new join token")
	errDenied     = errors.New("not allowed")
	errNoLeader   = errors.New("no manager leads at the moment: try again")
	errSilent     = errors.New("nothing was sent for too long")
)

// retrySoon is when to try again what failed only for the moment.
const retrySoon = 500 * time.Millisecond

// mapping gives every error that this API returns a code, and a reason for programs.
var mapping = []struct {
	err    error
	code   codes.Code
	reason string
}{
	{ledger.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{ledger.ErrExists, codes.AlreadyExists, "EXISTS"},
	{group.ErrStale, codes.Aborted, "ETAG_MISMATCH"},
	{group.ErrInUse, codes.FailedPrecondition, "GROUP_IN_USE"},
	{group.ErrDelivering, codes.FailedPrecondition, "GROUP_IN_USE"},
	{group.ErrRoleNotAllowed, codes.FailedPrecondition, "ROLE_NOT_ALLOWED"},
	{group.ErrGroupFull, codes.ResourceExhausted, "GROUP_FULL"},
	{ledger.ErrReused, codes.InvalidArgument, "REQUEST_ID_REUSED"},
	{ledger.ErrContention, codes.Aborted, "CONTENTION"},
	{ledger.ErrNotLeading, codes.Unavailable, "NOT_LEADING"},
	{ledger.ErrReplaced, codes.FailedPrecondition, "REPLACED"},
	{group.ErrToken, codes.Unauthenticated, "TOKEN_REFUSED"},
	{delivery.ErrNoReceivers, codes.FailedPrecondition, "NO_RECEIVERS"},
	{delivery.ErrNoTree, codes.FailedPrecondition, "NO_TREE"},
	{delivery.ErrTooMany, codes.ResourceExhausted, "TOO_MANY_DELIVERIES"},
	{delivery.ErrTooLarge, codes.FailedPrecondition, "OBJECT_TOO_LARGE"},
	{delivery.ErrSession, codes.FailedPrecondition, "SESSION_ENDED"},
	{delivery.ErrNoSender, codes.FailedPrecondition, "ROLE_NOT_ALLOWED"},
	{delivery.ErrSealed, codes.FailedPrecondition, "SEALED_OTHERWISE"},
	{delivery.ErrNotSealed, codes.FailedPrecondition, "NOT_SEALED"},
	{delivery.ErrMismatch, codes.InvalidArgument, "NOT_WHAT_WAS_SEALED"},
	{delivery.ErrEnded, codes.FailedPrecondition, "DELIVERY_ENDED"},
	{delivery.ErrNoPart, codes.FailedPrecondition, "NO_PART"},
	{delivery.ErrAmbiguous, codes.InvalidArgument, "AMBIGUOUS"},
	{placement.ErrNoAgent, codes.FailedPrecondition, "NO_AGENT"},
	{serviceaccount.ErrRefused, codes.Unauthenticated, "TOKEN_REFUSED"},
	{serviceaccount.ErrUnavailable, codes.Unavailable, "KUBERNETES_UNAVAILABLE"},
	{identity.ErrToken, codes.Unauthenticated, "TOKEN_REFUSED"},
	{identity.ErrForeign, codes.Unauthenticated, "FOREIGN_IDENTITY"},
	{store.ErrFull, codes.ResourceExhausted, "STORE_FULL"},
	{store.ErrFenced, codes.Unavailable, "NOT_LEADING"},
	{store.ErrUnavailable, codes.Unavailable, "STORE_UNAVAILABLE"},
	{view.ErrRelist, codes.OutOfRange, "RELIST"},
	{view.ErrGone, codes.NotFound, "GROUP_DELETED"},
	{errNoIdentity, codes.Unauthenticated, "NO_IDENTITY"},
	{errRevoked, codes.Unauthenticated, "REVOKED"},
	{errDenied, codes.PermissionDenied, "DENIED"},
	{errGatewayHeader, codes.Unauthenticated, "NO_IDENTITY"},
	{errNoLeader, codes.Unavailable, "NO_LEADER"},
	{errSilent, codes.DeadlineExceeded, "SILENT"},
	{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE"},
	{context.Canceled, codes.Canceled, "CANCELED"},
}

// toStatus turns a domain error into what the API returns.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, is := status.FromError(err); is {
		return err
	}
	var invalid *ledger.Invalid
	if errors.As(err, &invalid) {
		return newStatus(codes.InvalidArgument, "INVALID", err, violations(invalid))
	}
	var limited *ledger.RateLimited
	if errors.As(err, &limited) {
		return newStatus(codes.ResourceExhausted, "RATE_LIMITED", err, retryIn(limited.Retry))
	}
	for _, m := range mapping {
		switch {
		case !errors.Is(err, m.err):
		case m.code == codes.Unavailable:
			return newStatus(m.code, m.reason, err, retryIn(retrySoon))
		default:
			return newStatus(m.code, m.reason, err)
		}
	}
	return newStatus(codes.Internal, "INTERNAL", err)
}

func newStatus(code codes.Code, reason string, err error, details ...protoadapt.MessageV1) error {
	s := status.New(code, clip(err.Error()))
	detailed, detailErr := s.WithDetails(append(details, &errdetails.ErrorInfo{Reason: reason, Domain: errorDomain})...)
	if detailErr != nil {
		return s.Err()
	}
	return detailed.Err()
}

// maxText bounds what an answer says: it may repeat what the caller said.
const maxText = 1 << 10

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

func retryIn(delay time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
}

func violations(invalid *ledger.Invalid) *errdetails.BadRequest {
	request := new(errdetails.BadRequest)
	for _, violation := range invalid.Violations {
		request.FieldViolations = append(request.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: violation.Field, Description: clip(violation.Problem)})
	}
	return request
}
