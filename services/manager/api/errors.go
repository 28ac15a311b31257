package api

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Errors of the API itself.
var (
	errNoIdentity = errors.New("no certificate: enroll with a join token first")
	errRevoked    = errors.New("the identity was revoked: enroll with a new join token")
	errDenied     = errors.New("not allowed")
	errNoLeader   = errors.New("no manager leads at the moment: try again")
	errSilent     = errors.New("nothing was sent for too long")
)

// mapping gives every error that this API returns a code, and a reason for programs.
var mapping = []daemon.Code{
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
	{errNoLeader, codes.Unavailable, "NO_LEADER"},
	{errSilent, codes.DeadlineExceeded, "SILENT"},
	{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE"},
	{context.Canceled, codes.Canceled, "CANCELED"},
}

// toStatus turns a domain error into what the API returns.
func toStatus(err error) error {
	var invalid *ledger.Invalid
	if errors.As(err, &invalid) {
		return daemon.NewStatus(codes.InvalidArgument, "INVALID", err, violations(invalid))
	}
	var limited *ledger.RateLimited
	if errors.As(err, &limited) {
		return daemon.NewStatus(codes.ResourceExhausted, "RATE_LIMITED", err, daemon.RetryIn(limited.Retry))
	}
	return daemon.Status(err, mapping)
}

func violations(invalid *ledger.Invalid) *errdetails.BadRequest {
	request := new(errdetails.BadRequest)
	for _, violation := range invalid.Violations {
		request.FieldViolations = append(request.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: violation.Field, Description: daemon.Clip(violation.Problem)})
	}
	return request
}
