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
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/serviceaccount"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Errors of the API itself.
var (
	errNoIdentity = errors.New("no certificate: enroll with a join token first")
	errRevoked    = errors.New("the identity was revoked: enroll with a new join token")
	errDenied     = errors.New("not allowed")
	errNoRelay    = errors.New("its policy does not let members relay")
	errNoLeader   = errors.New("no manager leads at the moment: try again")
)

// codesOf gives every error that this API returns a code, and a reason for programs.
var codesOf = []daemon.Code{
	{Err: ledger.ErrNotFound, Code: codes.NotFound, Reason: "NOT_FOUND"},
	{Err: ledger.ErrExists, Code: codes.AlreadyExists, Reason: "EXISTS"},
	{Err: group.ErrStale, Code: codes.Aborted, Reason: "ETAG_MISMATCH"},
	{Err: group.ErrInUse, Code: codes.FailedPrecondition, Reason: "GROUP_IN_USE"},
	{Err: group.ErrDelivering, Code: codes.FailedPrecondition, Reason: "GROUP_IN_USE"},
	{Err: group.ErrRoleNotAllowed, Code: codes.FailedPrecondition, Reason: "ROLE_NOT_ALLOWED"},
	{Err: group.ErrGroupFull, Code: codes.ResourceExhausted, Reason: "GROUP_FULL"},
	{Err: group.ErrManySessions, Code: codes.ResourceExhausted, Reason: "TOO_MANY_SESSIONS"},
	{Err: ledger.ErrReused, Code: codes.InvalidArgument, Reason: "REQUEST_ID_REUSED"},
	{Err: ledger.ErrContention, Code: codes.Aborted, Reason: "CONTENTION"},
	{Err: ledger.ErrNotLeading, Code: codes.Unavailable, Reason: "NOT_LEADING"},
	{Err: ledger.ErrReplaced, Code: codes.FailedPrecondition, Reason: "REPLACED"},
	{Err: group.ErrNotLetIn, Code: codes.PermissionDenied, Reason: "DENIED"},
	{Err: group.ErrToken, Code: codes.Unauthenticated, Reason: "TOKEN_REFUSED"},
	{Err: group.ErrTokenRole, Code: codes.FailedPrecondition, Reason: "TOKEN_ROLE"},
	{Err: delivery.ErrNoReceivers, Code: codes.FailedPrecondition, Reason: "NO_RECEIVERS"},
	{Err: delivery.ErrNoTree, Code: codes.FailedPrecondition, Reason: "NO_TREE"},
	{Err: delivery.ErrTooMany, Code: codes.ResourceExhausted, Reason: "TOO_MANY_DELIVERIES"},
	{Err: delivery.ErrManyMembers, Code: codes.FailedPrecondition, Reason: "TOO_MANY_MEMBERS"},
	{Err: delivery.ErrTooLarge, Code: codes.FailedPrecondition, Reason: "OBJECT_TOO_LARGE"},
	{Err: delivery.ErrSession, Code: codes.FailedPrecondition, Reason: "SESSION_ENDED"},
	{Err: delivery.ErrNoSender, Code: codes.FailedPrecondition, Reason: "ROLE_NOT_ALLOWED"},
	{Err: delivery.ErrSealed, Code: codes.FailedPrecondition, Reason: "SEALED_OTHERWISE"},
	{Err: delivery.ErrNotSealed, Code: codes.FailedPrecondition, Reason: "NOT_SEALED"},
	{Err: delivery.ErrMismatch, Code: codes.InvalidArgument, Reason: "NOT_WHAT_WAS_SEALED"},
	{Err: delivery.ErrEnded, Code: codes.FailedPrecondition, Reason: "DELIVERY_ENDED"},
	{Err: delivery.ErrNoPart, Code: codes.FailedPrecondition, Reason: "NO_PART"},
	{Err: delivery.ErrAmbiguous, Code: codes.InvalidArgument, Reason: "AMBIGUOUS"},
	{Err: replication.ErrNoReplicas, Code: codes.FailedPrecondition, Reason: "NO_REPLICAS"},
	{Err: replication.ErrNoSender, Code: codes.FailedPrecondition, Reason: "NO_SENDER"},
	{Err: replication.ErrOffline, Code: codes.FailedPrecondition, Reason: "REPLICATOR_OFFLINE"},
	{Err: replication.ErrTooMany, Code: codes.ResourceExhausted, Reason: "TOO_MANY_REPLICATIONS"},
	{Err: replication.ErrAmbiguous, Code: codes.InvalidArgument, Reason: "AMBIGUOUS"},
	{Err: placement.ErrNoAgent, Code: codes.FailedPrecondition, Reason: "NO_AGENT"},
	{Err: serviceaccount.ErrRefused, Code: codes.Unauthenticated, Reason: "TOKEN_REFUSED"},
	{Err: serviceaccount.ErrUnavailable, Code: codes.Unavailable, Reason: "KUBERNETES_UNAVAILABLE"},
	{Err: identity.ErrToken, Code: codes.Unauthenticated, Reason: "TOKEN_REFUSED"},
	{Err: identity.ErrForeign, Code: codes.Unauthenticated, Reason: "FOREIGN_IDENTITY"},
	{Err: store.ErrFull, Code: codes.ResourceExhausted, Reason: "STORE_FULL"},
	{Err: store.ErrTooLarge, Code: codes.FailedPrecondition, Reason: "STORE_TOO_SMALL"},
	{Err: store.ErrFenced, Code: codes.Unavailable, Reason: "NOT_LEADING"},
	{Err: store.ErrUnavailable, Code: codes.Unavailable, Reason: "STORE_UNAVAILABLE"},
	{Err: view.ErrRelist, Code: codes.OutOfRange, Reason: "RELIST"},
	{Err: view.ErrGone, Code: codes.NotFound, Reason: "GROUP_DELETED"},
	{Err: errNoIdentity, Code: codes.Unauthenticated, Reason: "NO_IDENTITY"},
	{Err: errRevoked, Code: codes.Unauthenticated, Reason: "REVOKED"},
	{Err: errDenied, Code: codes.PermissionDenied, Reason: "DENIED"},
	{Err: errNoRelay, Code: codes.FailedPrecondition, Reason: "RELAY_NOT_ALLOWED"},
	{Err: daemon.ErrGatewayHeader, Code: codes.Unauthenticated, Reason: "NO_IDENTITY"},
	{Err: errNoLeader, Code: codes.Unavailable, Reason: "NO_LEADER"},
	{Err: daemon.ErrSilent, Code: codes.DeadlineExceeded, Reason: "SILENT"},
	{Err: context.DeadlineExceeded, Code: codes.DeadlineExceeded, Reason: "DEADLINE"},
	{Err: context.Canceled, Code: codes.Canceled, Reason: "CANCELED"},
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
	return daemon.Status(err, codesOf)
}

func violations(invalid *ledger.Invalid) *errdetails.BadRequest {
	request := new(errdetails.BadRequest)
	for _, violation := range invalid.Violations {
		request.FieldViolations = append(request.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: violation.Field, Description: daemon.Clip(violation.Problem)})
	}
	return request
}
