package api

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/gatherer/grant"
	"github.com/groupcast/groupcast/services/gatherer/revocation"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// Errors of the API itself.
var (
	errNoIdentity = errors.New("no certificate: enroll with a join token first")
	errDenied     = errors.New("not allowed")
	errInvalid    = errors.New("request not understood")
)

// codesOf gives every error that this API returns a code, and a reason for programs.
var codesOf = []daemon.Code{
	{Err: errNoIdentity, Code: codes.Unauthenticated, Reason: "NO_IDENTITY"},
	{Err: daemon.ErrGatewayHeader, Code: codes.Unauthenticated, Reason: "NO_IDENTITY"},
	{Err: errDenied, Code: codes.PermissionDenied, Reason: "DENIED"},
	{Err: revocation.ErrRevoked, Code: codes.Unauthenticated, Reason: "REVOKED"},
	{Err: revocation.ErrUnsure, Code: codes.Unavailable, Reason: "REVOCATIONS_UNKNOWN"},
	{Err: grant.ErrUnsure, Code: codes.Unavailable, Reason: "GROUPS_UNKNOWN"},
	{Err: daemon.ErrSilent, Code: codes.DeadlineExceeded, Reason: "SILENT"},
	{Err: errInvalid, Code: codes.InvalidArgument, Reason: "INVALID"},
	{Err: roster.ErrNoName, Code: codes.InvalidArgument, Reason: "NAME_REFUSED"},
	{Err: roster.ErrName, Code: codes.PermissionDenied, Reason: "NAME_REFUSED"},
	{Err: roster.ErrSession, Code: codes.FailedPrecondition, Reason: "SESSION_ENDED"},
	{Err: roster.ErrUpload, Code: codes.NotFound, Reason: "UPLOAD_UNKNOWN"},
	{Err: roster.ErrLabels, Code: codes.InvalidArgument, Reason: "INVALID"},
	{Err: roster.ErrRefused, Code: codes.ResourceExhausted, Reason: "MINIMUM_DOES_NOT_FIT"},
	{Err: roster.ErrKept, Code: codes.Unavailable, Reason: "PLACE_KEPT"},
	{Err: roster.ErrCrowded, Code: codes.ResourceExhausted, Reason: "TOO_MANY"},
	{Err: roster.ErrStored, Code: codes.ResourceExhausted, Reason: "STORED_TOO_MUCH"},
	{Err: roster.ErrUncounted, Code: codes.Unavailable, Reason: "BUSY"},
	{Err: roster.ErrUnfinished, Code: codes.Aborted, Reason: "UNFINISHED"},
	{Err: roster.ErrStopping, Code: codes.Unavailable, Reason: "STOPPING"},
	{Err: roster.ErrTooMuch, Code: codes.InvalidArgument, Reason: "INVALID"},
	{Err: gathered.ErrBundle, Code: codes.InvalidArgument, Reason: "INVALID"},
	{Err: gathered.ErrPath, Code: codes.InvalidArgument, Reason: "PATH_REFUSED"},
	{Err: roster.ErrPolicy, Code: codes.InvalidArgument, Reason: "INVALID"},
	{Err: roster.ErrStale, Code: codes.Aborted, Reason: "POLICY_CHANGED"},
	{Err: unix.ENOTDIR, Code: codes.FailedPrecondition, Reason: "NAME_TAKEN"},
	{Err: object.ErrName, Code: codes.FailedPrecondition, Reason: "NAME_TAKEN"},
	{Err: object.ErrDamaged, Code: codes.DataLoss, Reason: "DAMAGED"},
	{Err: noroom.Err, Code: codes.Unavailable, Reason: "DISK_FULL"},
	{Err: unix.ENOSPC, Code: codes.Unavailable, Reason: "DISK_FULL"},
	{Err: unix.EDQUOT, Code: codes.Unavailable, Reason: "DISK_FULL"},
	{Err: object.ErrBusy, Code: codes.Unavailable, Reason: "BUSY"},
	{Err: unix.EMFILE, Code: codes.Unavailable, Reason: "BUSY"},
	{Err: unix.ENFILE, Code: codes.Unavailable, Reason: "BUSY"},
	{Err: unix.ENOMEM, Code: codes.Unavailable, Reason: "BUSY"},
	{Err: unix.ENAMETOOLONG, Code: codes.InvalidArgument, Reason: "PATH_REFUSED"},
	{Err: roster.ErrUnwritable, Code: codes.FailedPrecondition, Reason: "STORE_UNWRITABLE"},
	{Err: roster.ErrDisk, Code: codes.FailedPrecondition, Reason: "DISK_FAILED"},
	{Err: context.DeadlineExceeded, Code: codes.DeadlineExceeded, Reason: "DEADLINE"},
	{Err: context.Canceled, Code: codes.Canceled, Reason: "CANCELED"},
}

func toStatus(err error) error { return daemon.Status(err, codesOf) }
